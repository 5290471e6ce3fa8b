#include "tensor_chunking/read_plan.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/layout.h"
#include "tensor_chunking/test_tensor.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;

struct Case {
  DType dtype = DType::kU8;
  TileGrid grid;
};

// A small tensor of any dtype, with any tile shape that it can have.
Case RandomCase(Random& random) {
  while (true) {
    DType dtype = AllDTypes()[random.Below(AllDTypes().size())];
    Shape shape(random.Below(5));
    for (uint64_t& size : shape) size = 1 + random.Below(9);
    if (!shape.empty() && random.Below(20) == 0) shape[random.Below(shape.size())] = 0;
    Shape tile = shape;
    for (uint64_t& size : tile) {
      if (size > 0 && random.Below(3) > 0) size = 1 + random.Below(size);
      size = std::max<uint64_t>(1, size);
    }
    auto grid = TileGrid::Create(dtype, shape, tile);
    if (grid.ok()) return {dtype, *grid};
  }
}

std::vector<SliceItem> RandomItems(const Shape& shape, Random& random) {
  std::vector<SliceItem> items;
  size_t named = random.Below(shape.size() + 1);
  for (size_t d = 0; d < named; ++d) {
    if (random.Below(6) == 0) items.push_back(SliceItem::NewAxis());
    int64_t size = static_cast<int64_t>(shape[d]);
    if (size > 0 && random.Below(4) == 0) {
      items.push_back(SliceItem::Index(static_cast<int64_t>(random.Below(size * 2)) - size));
      continue;
    }
    SliceItem item;
    auto bound = [&] { return static_cast<int64_t>(random.Below(size * 2 + 4)) - size - 2; };
    if (random.Below(2) == 0) item.start = bound();
    if (random.Below(2) == 0) item.stop = bound();
    if (random.Below(2) == 0) item.step = static_cast<int64_t>(random.Below(4)) + 1;
    if (item.step.has_value() && random.Below(2) == 0) item.step = -*item.step;
    items.push_back(item);
  }
  return items;
}

// Executes a plan as a reader does: each range into a buffer of its own, or straight.
struct Executed {
  std::vector<uint8_t> out;
  uint64_t read_bytes = 0;
  uint64_t ranges = 0;
};

Executed Execute(const ReadPlan& plan, const Case& c, const TestTensor& tensor) {
  Executed run;
  run.out.resize(plan.result_bytes(), 0xee);
  uint64_t copied = 0;
  int64_t previous = -1;
  for (uint64_t i = 0; i < plan.size(); ++i) {
    TileWork work = plan.Work(i);
    EXPECT_GT(static_cast<int64_t>(work.tile), previous);
    previous = static_cast<int64_t>(work.tile);
    std::vector<uint8_t> tile = tensor.Tile(c.grid.TileRegion(work.tile));
    EXPECT_EQ(work.tile_bytes, tile.size());
    EXPECT_FALSE(work.reads.empty());
    copied += work.copied_bytes;
    uint64_t end = 0;
    for (const TileRead& read : work.reads) {
      EXPECT_GE(read.offset_bytes, end);
      end = read.offset_bytes + read.length_bytes;
      EXPECT_LE(end, tile.size());
      std::vector<uint8_t> buffer(tile.begin() + static_cast<int64_t>(read.offset_bytes),
                                  tile.begin() + static_cast<int64_t>(end));
      if (read.direct()) {
        std::memcpy(run.out.data() + read.copies[0].dst_offset(), buffer.data(), buffer.size());
      } else {
        for (const RegionCopy& copy : read.copies) copy.Run(buffer.data(), run.out.data());
      }
      run.read_bytes += read.length_bytes;
      ++run.ranges;
    }
  }
  EXPECT_EQ(copied, plan.result_bytes());
  return run;
}

TEST(ReadPlan, GivesTheSliceOfTheDenseTensor) {
  SeededRandom random(11);
  int planned = 0;
  for (int i = 0; i < 20000; ++i) {
    Case c = RandomCase(random);
    TestTensor tensor(c.dtype, c.grid.shape(), random);
    auto slice = ResolveSlice(RandomItems(c.grid.shape(), random), c.grid.shape());
    ASSERT_TRUE(slice.ok()) << ErrorText(slice.status());
    const uint64_t gap = random.Below(3) == 0 ? kReadGapBytes : random.Below(20);
    auto plan = ReadPlan::Create(c.dtype, c.grid, *slice, {gap, {}});
    if (!plan.ok()) {
      ASSERT_TRUE(IsSubByte(c.dtype)) << ErrorText(plan.status());
      continue;
    }
    ++planned;
    Executed run = Execute(*plan, c, tensor);
    ASSERT_EQ(run.out, tensor.Slice(slice->dims))
        << DTypeName(c.dtype) << FormatShape(c.grid.shape()) << FormatShape(c.grid.tile_shape());
    // Read in vain: less than a gap for each piece that was joined.
    if (gap == 0) {
      ASSERT_EQ(run.read_bytes, plan->result_bytes());
    } else if (plan->result_bytes() > 0) {
      ASSERT_LE(run.read_bytes, plan->result_bytes() * gap);
    }
  }
  EXPECT_GT(planned, 15000);
}

TEST(ReadPlan, TouchesNoOtherTiles) {
  SeededRandom random(12);
  for (int i = 0; i < 3000; ++i) {
    Case c = RandomCase(random);
    if (IsSubByte(c.dtype)) continue;
    ResolvedSlice slice = *ResolveSlice(RandomItems(c.grid.shape(), random), c.grid.shape());
    ReadPlan plan = *ReadPlan::Create(c.dtype, c.grid, slice);
    std::set<uint64_t> expected, touched;
    uint64_t count = 1;
    for (const SliceDim& dim : slice.dims) count *= dim.count;
    for (uint64_t e = 0; e < count; ++e) {
      uint64_t rest = e;
      Shape coordinates(slice.dims.size());
      for (size_t d = slice.dims.size(); d-- > 0;) {
        const SliceDim& dim = slice.dims[d];
        int64_t at =
            static_cast<int64_t>(dim.start) + static_cast<int64_t>(rest % dim.count) * dim.step;
        coordinates[d] = static_cast<uint64_t>(at) / c.grid.tile_shape()[d];
        rest /= dim.count;
      }
      expected.insert(c.grid.TileAt(coordinates));
    }
    for (uint64_t w = 0; w < plan.size(); ++w) {
      TileWork work = plan.Work(w);
      touched.insert(work.tile);
      EXPECT_EQ(work.covers_tile, work.copied_bytes == work.tile_bytes);
    }
    ASSERT_EQ(touched, expected);
  }
}

TEST(ReadPlan, WritesWithTheStridesOfTheDestination) {
  SeededRandom random(13);
  for (int i = 0; i < 3000; ++i) {
    Case c = RandomCase(random);
    if (IsSubByte(c.dtype)) continue;
    TestTensor tensor(c.dtype, c.grid.shape(), random);
    ResolvedSlice slice = *ResolveSlice(RandomItems(c.grid.shape(), random), c.grid.shape());
    // Fortran order, some axes backwards.
    const int64_t unit = DTypeBytes(c.dtype);
    const Shape& shape = slice.result_shape;
    ReadOptions options{random.Below(20), {}};
    int64_t stride = unit, origin = 0;
    for (uint64_t size : shape) {
      bool backwards = random.Below(2) == 0;
      options.destination_strides.push_back(backwards ? -stride : stride);
      if (backwards && size > 0) origin += static_cast<int64_t>(size - 1) * stride;
      stride *= static_cast<int64_t>(size);
    }
    ReadPlan plan = *ReadPlan::Create(c.dtype, c.grid, slice, options);
    std::vector<uint8_t> out(plan.result_bytes());
    for (uint64_t w = 0; w < plan.size(); ++w) {
      TileWork work = plan.Work(w);
      std::vector<uint8_t> tile = tensor.Tile(c.grid.TileRegion(work.tile));
      for (const TileRead& read : work.reads) {
        for (const RegionCopy& copy : read.copies) {
          copy.Run(tile.data() + read.offset_bytes, out.data() + origin);
        }
      }
    }
    std::vector<uint8_t> dense = tensor.Slice(slice.dims);
    for (uint64_t e = 0; e < *ElementCount(shape); ++e) {
      uint64_t rest = e;
      int64_t at = origin;
      for (size_t d = shape.size(); d-- > 0;) {
        at += static_cast<int64_t>(rest % shape[d]) * options.destination_strides[d];
        rest /= shape[d];
      }
      ASSERT_EQ(std::memcmp(out.data() + at, dense.data() + e * unit, unit), 0);
    }
  }
}

TEST(ReadPlan, GivesRowsInTheOrderAskedFor) {
  SeededRandom random(14);
  int planned = 0;
  for (int i = 0; i < 5000; ++i) {
    Case c = RandomCase(random);
    const Shape& shape = c.grid.shape();
    if (shape.empty() || shape[0] == 0) continue;
    TestTensor tensor(c.dtype, shape, random);
    std::vector<int64_t> rows(random.Below(12));
    int64_t size = static_cast<int64_t>(shape[0]);
    for (int64_t& row : rows) row = static_cast<int64_t>(random.Below(size * 2)) - size;
    auto plan = ReadPlan::CreateRows(c.dtype, c.grid, rows, {random.Below(20), {}});
    if (!plan.ok()) {
      ASSERT_TRUE(IsSubByte(c.dtype)) << ErrorText(plan.status());
      continue;
    }
    ++planned;
    std::vector<uint8_t> expected;
    for (int64_t row : rows) {
      std::vector<SliceDim> dims = WholeSlice(shape).dims;
      dims[0] = {static_cast<uint64_t>(row < 0 ? row + size : row), 1, 1, 0};
      std::vector<uint8_t> one = tensor.Slice(dims);
      expected.insert(expected.end(), one.begin(), one.end());
    }
    ASSERT_EQ(Execute(*plan, c, tensor).out, expected);
  }
  EXPECT_GT(planned, 3000);
}

TEST(ReadPlan, ScattersAnUpdateThroughTheReversedCopies) {
  SeededRandom random(15);
  for (int i = 0; i < 2000; ++i) {
    Case c = RandomCase(random);
    if (IsSubByte(c.dtype)) continue;
    TestTensor before(c.dtype, c.grid.shape(), random);
    TestTensor values(c.dtype, c.grid.shape(), random);
    ResolvedSlice slice = *ResolveSlice(RandomItems(c.grid.shape(), random), c.grid.shape());
    std::vector<uint8_t> update = values.Slice(slice.dims);
    ReadPlan plan = *ReadPlan::Create(c.dtype, c.grid, slice);
    for (uint64_t w = 0; w < plan.size(); ++w) {
      TileWork work = plan.Work(w);
      std::vector<uint8_t> tile = before.Tile(c.grid.TileRegion(work.tile));
      if (work.covers_tile) std::fill(tile.begin(), tile.end(), 0);
      for (const TileRead& read : work.reads) {
        for (const RegionCopy& copy : read.copies) {
          copy.Reversed().Run(update.data(), tile.data() + read.offset_bytes);
        }
      }
      // Reading the part back gives the update's bytes of this tile.
      std::vector<uint8_t> back(plan.result_bytes());
      for (const TileRead& read : work.reads) {
        for (const RegionCopy& copy : read.copies) {
          copy.Run(tile.data() + read.offset_bytes, back.data());
        }
      }
      uint64_t equal = 0;
      for (size_t b = 0; b < back.size(); ++b) equal += back[b] == update[b];
      ASSERT_GE(equal, work.copied_bytes);
    }
  }
}

TileGrid Grid(DType dtype, const Shape& shape, LayoutKind kind) {
  Shape tile = *PlanLayout(dtype, shape, {kind, {}}, kDefaultTileBytes, kDefaultMaxObjectBytes);
  return *TileGrid::Create(dtype, shape, tile);
}

TEST(ReadPlan, ReadsRowPanelsStraightIntoTheDestination) {
  TileGrid grid = Grid(DType::kF32, {30522, 384}, LayoutKind::kAuto);
  ReadPlan plan = *ReadPlan::Create(DType::kF32, grid, *ResolveSlice("100:20000", grid.shape()));
  ASSERT_EQ(plan.size(), 4u);
  int64_t next = 0;
  for (uint64_t i = 0; i < plan.size(); ++i) {
    TileWork work = plan.Work(i);
    ASSERT_EQ(work.reads.size(), 1u);
    EXPECT_TRUE(work.reads[0].direct());
    EXPECT_EQ(work.reads[0].copies[0].dst_offset(), next);
    EXPECT_EQ(work.covers_tile, i == 1 || i == 2);
    next += static_cast<int64_t>(work.reads[0].length_bytes);
  }
  EXPECT_EQ(next, int64_t{19900} * 384 * 4);
}

TEST(ReadPlan, ReadsAColumnShardAsWholeTiles) {
  TileGrid grid = Grid(DType::kF32, {9000, 9000}, LayoutKind::kAuto);
  ReadPlan plan = *ReadPlan::Create(DType::kF32, grid, *ShardSlice(grid.shape(), 1, 4, 1));
  uint64_t read = 0;
  for (uint64_t i = 0; i < plan.size(); ++i) {
    TileWork work = plan.Work(i);
    EXPECT_TRUE(work.covers_tile);
    ASSERT_EQ(work.reads.size(), 1u);
    EXPECT_EQ(work.reads[0].copies[0].run_bytes(), 4500u);
    read += work.reads[0].length_bytes;
  }
  EXPECT_EQ(read, plan.result_bytes());
}

TEST(ReadPlan, ReadsFarRowsOfATileApartAndNearOnesTogether) {
  TileGrid grid =
      *TileGrid::Create(DType::kF32, ShapeSpan(Shape{1024, 1024}), ShapeSpan(Shape{1024, 1024}));
  auto ranges = [&](const char* text) {
    return ReadPlan::Create(DType::kF32, grid, *ResolveSlice(text, grid.shape()))->Work(0).reads;
  };
  // Rows of 4 KiB: 65 apart leave a gap of exactly 256 KiB, 64 one below it.
  EXPECT_EQ(ranges("0:131:65").size(), 3u);
  ASSERT_EQ(ranges("0:129:64").size(), 1u);
  EXPECT_EQ(ranges("0:129:64")[0].length_bytes, 129u * 4096);
  EXPECT_EQ(ranges("3::-3")[0].offset_bytes, 0u);
  std::vector<int64_t> rows = {1000, 0, 1, 999, 0};
  TileWork work = ReadPlan::CreateRows(DType::kF32, grid, rows)->Work(0);
  ASSERT_EQ(work.reads.size(), 2u);
  EXPECT_EQ(work.reads[0].length_bytes, 2u * 4096);
  EXPECT_EQ(work.reads[1].offset_bytes, 999u * 4096);
}

TEST(ReadPlan, IsRightAndCheapBeyond32Bits) {
  const uint64_t k31 = uint64_t{1} << 31, k32 = uint64_t{1} << 32;
  for (uint64_t size : {k31 - 1, k31, k32 + 1}) {
    TileGrid grid = Grid(DType::kU8, {size}, LayoutKind::kAuto);
    ReadPlan whole = *ReadPlan::Create(DType::kU8, grid, WholeSlice(grid.shape()));
    EXPECT_EQ(whole.result_bytes(), size);
    TileRead last = whole.Work(whole.size() - 1).reads[0];
    EXPECT_TRUE(last.direct());
    EXPECT_EQ(static_cast<uint64_t>(last.copies[0].dst_offset()) + last.length_bytes, size);
  }
  // 2^34 elements of 8 bytes in 2^25 tiles: two elements touch two tiles.
  TileGrid grid =
      *TileGrid::Create(DType::kF64, ShapeSpan(Shape{k32, 4}), ShapeSpan(Shape{256, 2}));
  ReadPlan corner =
      *ReadPlan::Create(DType::kF64, grid, *ResolveSlice("::4294967295, -1", grid.shape()));
  ASSERT_EQ(corner.size(), 2u);
  TileWork work = corner.Work(1);
  EXPECT_EQ(work.tile, (k32 / 256) * 2 - 1);
  EXPECT_EQ(work.reads[0].offset_bytes, (255u * 2 + 1) * 8);
  EXPECT_EQ(work.reads[0].copies[0].dst_offset(), 8);
}

TEST(ReadPlan, RefusesSlicesThatCutAByte) {
  TileGrid grid = *TileGrid::Create(DType::kF4, ShapeSpan(Shape{6, 8}), ShapeSpan(Shape{2, 8}));
  auto error = [&](const char* text) {
    auto plan = ReadPlan::Create(DType::kF4, grid, *ResolveSlice(text, grid.shape()));
    return ErrorText(plan.status());
  };
  EXPECT_EQ(error("::-1, 2:6"), "OK");
  EXPECT_EQ(error("3:3, 1"), "OK");  // nothing is taken
  EXPECT_THAT(error(":, 1:3"), HasSubstr("inside a byte"));
  EXPECT_THAT(error(":, 3"), HasSubstr("inside a byte"));
  EXPECT_THAT(error(":, ::2"), HasSubstr("inside a byte of F4"));
  TileGrid odd = *TileGrid::Create(DType::kF4, ShapeSpan(Shape{6, 3}), ShapeSpan(Shape{2, 3}));
  EXPECT_TRUE(ReadPlan::Create(DType::kF4, odd, *ResolveSlice("2:4", odd.shape())).ok());
  EXPECT_FALSE(ReadPlan::Create(DType::kF4, odd, *ResolveSlice("1:3", odd.shape())).ok());
  EXPECT_FALSE(ReadPlan::Create(DType::kF4, odd, *ResolveSlice("2:4, :2", odd.shape())).ok());
  std::vector<int64_t> rows = {0};
  EXPECT_FALSE(ReadPlan::CreateRows(DType::kF4, odd, rows).ok());
  EXPECT_TRUE(ReadPlan::CreateRows(DType::kF4, grid, rows).ok());
}

TEST(ReadPlan, NamesARowOutOfRange) {
  TileGrid grid = Grid(DType::kF32, {10, 4}, LayoutKind::kAuto);
  std::vector<int64_t> rows = {0, -11};
  EXPECT_THAT(ErrorText(ReadPlan::CreateRows(DType::kF32, grid, rows).status()),
              HasSubstr("row index -11 (number 1 of the list) is out of range for axis 0 of size "
                        "10"));
}

}  // namespace
}  // namespace tilekv
