#include "tensor_chunking/region_copy.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/stream_copy.h"
#include "tensor_chunking/test_tensor.h"

namespace tilekv {
namespace {

TEST(RegionCopy, CopiesWhatTheStridesSay) {
  SeededRandom random(21);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t unit = std::array<uint64_t, 8>{1, 2, 3, 4, 7, 8, 16, 24}[random.Below(8)];
    const size_t rank = random.Below(5);
    // Buffers in which each dimension steps over what the inner ones span, in a random order of
    // dimensions and directions.
    std::vector<CopyDim> dims(rank);
    std::vector<uint64_t> counts(rank);
    for (uint64_t& count : counts) count = random.Below(40) == 0 ? 0 : 1 + random.Below(5);
    if (rank >= 2 && random.Below(100) == 0) counts[0] = counts[1] = 70;
    for (size_t d = 0; d < rank; ++d) dims[d].count = counts[d];
    uint64_t spans[2] = {unit, unit};
    int64_t offsets[2] = {0, 0};
    for (int side = 0; side < 2; ++side) {
      std::vector<size_t> order(rank);
      for (size_t d = 0; d < rank; ++d) order[d] = rank - 1 - d;
      if (random.Below(2) == 0) {
        for (size_t d = rank; d > 1; --d) std::swap(order[d - 1], order[random.Below(d)]);
      }
      for (size_t d : order) {
        int64_t stride = static_cast<int64_t>(spans[side]);
        if (random.Below(2) == 0) stride += static_cast<int64_t>(random.Below(3) * unit);
        spans[side] += static_cast<uint64_t>(stride) * (std::max<uint64_t>(1, counts[d]) - 1);
        if (random.Below(3) == 0) {
          offsets[side] += stride * (static_cast<int64_t>(std::max<uint64_t>(1, counts[d])) - 1);
          stride = -stride;
        }
        (side == 0 ? dims[d].src_stride : dims[d].dst_stride) = stride;
      }
    }
    std::vector<uint8_t> src(spans[0]), dst(spans[1], 0xaa), expected(spans[1], 0xaa);
    for (uint8_t& byte : src) byte = static_cast<uint8_t>(random.Next());
    uint64_t total = 1;
    for (uint64_t count : counts) total *= count;
    for (uint64_t e = 0; e < total; ++e) {
      uint64_t rest = e;
      int64_t from = offsets[0], to = offsets[1];
      for (size_t d = rank; d-- > 0;) {
        from += static_cast<int64_t>(rest % counts[d]) * dims[d].src_stride;
        to += static_cast<int64_t>(rest % counts[d]) * dims[d].dst_stride;
        rest /= counts[d];
      }
      std::copy_n(src.begin() + from, unit, expected.begin() + to);
    }
    RegionCopy copy(unit, offsets[0], offsets[1], dims);
    EXPECT_EQ(copy.bytes(), total * unit);
    copy.Run(src.data(), dst.data());
    ASSERT_EQ(dst, expected);
    // Back again gives the bytes that were taken, and leaves the rest.
    std::vector<uint8_t> back = src;
    for (uint64_t b = 0; b < back.size(); ++b) back[b] = static_cast<uint8_t>(~back[b]);
    copy.Reversed().Run(dst.data(), back.data());
    RegionCopy again(unit, offsets[0], offsets[1], dims);
    std::vector<uint8_t> third(spans[1], 0xaa);
    again.Run(back.data(), third.data());
    ASSERT_EQ(third, expected);
  }
}

TEST(RegionCopy, PiecesOfTheSourceInOrderMakeTheWhole) {
  SeededRandom random(23);
  int in_order = 0;
  for (int i = 0; i < 5000; ++i) {
    Shape shape(1 + random.Below(4));
    for (uint64_t& size : shape) size = 1 + random.Below(7);
    Region src;
    for (uint64_t size : shape) {
      uint64_t start = random.Below(size);
      src.start.push_back(start);
      src.extent.push_back(1 + random.Below(size - start));
    }
    Region whole = Region::Whole(shape);
    const uint64_t unit = 1 + random.Below(5);
    std::optional<RegionCopy> copy = CopyOverlap(unit, src, whole);
    ASSERT_TRUE(copy.has_value());
    if (!copy->source_in_order()) continue;
    ++in_order;
    std::vector<uint8_t> from(copy->bytes());
    for (uint8_t& byte : from) byte = static_cast<uint8_t>(random.Next());
    std::vector<uint8_t> expected(unit * *ElementCount(shape), 0xaa), got = expected;
    copy->Run(from.data(), expected.data());
    for (uint64_t at = 0; at < from.size();) {
      uint64_t bytes = std::min<uint64_t>(from.size() - at, random.Below(20));
      copy->RunPiece(at, Bytes(from).subspan(at, bytes), got.data());
      at += bytes;
    }
    ASSERT_EQ(got, expected);
    std::vector<MutableBytes> pieces;
    for (uint64_t at = 0; at < from.size();) {
      uint64_t bytes = std::min<uint64_t>(from.size() - at, random.Below(20));
      copy->PiecesOf(at, bytes, got.data(), pieces);
      at += bytes;
    }
    std::vector<uint8_t> lies_there;
    for (MutableBytes piece : pieces) {
      ASSERT_FALSE(piece.empty());
      lies_there.insert(lies_there.end(), piece.begin(), piece.end());
    }
    ASSERT_EQ(lies_there, from) << "the memory where the pieces of the source were put";
  }
  EXPECT_GT(in_order, 4000) << "a box that is taken whole is in order";
  EXPECT_FALSE(RegionCopy(4, 12, 0, std::array{CopyDim{4, -4, 4}}).source_in_order());
  EXPECT_FALSE(RegionCopy(4, 0, 0, std::array{CopyDim{4, 8, 4}}).source_in_order());
}

TEST(RegionCopy, StreamsWhateverTheLengthAndTheAddress) {
  SeededRandom random(29);
  std::vector<uint8_t> from(2'000);
  for (uint8_t& byte : from) byte = static_cast<uint8_t>(random.Next());
  for (int i = 0; i < 2'000; ++i) {
    const uint64_t run = 1 + random.Below(400);
    const uint64_t rows = 1 + random.Below(4);
    const uint64_t stride = run + random.Below(100);
    const uint64_t begin = random.Below(70);
    RegionCopy copy(
        run, 0, static_cast<int64_t>(begin),
        std::array{CopyDim{rows, static_cast<int64_t>(run), static_cast<int64_t>(stride)}});
    std::vector<uint8_t> expected(begin + rows * stride, 0xaa), got = expected;
    copy.Run(from.data(), expected.data());
    const uint64_t first = random.Below(copy.bytes() + 1);
    copy.StreamPiece(0, Bytes(from).first(first), got.data());
    copy.StreamPiece(first, Bytes(from).subspan(first, copy.bytes() - first), got.data());
    ASSERT_EQ(got, expected) << run << " bytes a row, " << rows << " rows from " << begin;
  }
}

TEST(StreamCopy, KnowsMemoryThatNobodyHasWrittenTo) {
  constexpr size_t kBytes = size_t{1} << 20;
  void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* memory = static_cast<uint8_t*>(mapped);
  madvise(memory, kBytes, MADV_NOHUGEPAGE);
  EXPECT_FALSE(HasMemory(memory + kBytes / 2 + 7));
  memory[kBytes / 2] = 1;
  EXPECT_TRUE(HasMemory(memory + kBytes / 2 + 7));
  EXPECT_FALSE(HasMemory(memory + 100));
  munmap(mapped, kBytes);
  EXPECT_FALSE(HasMemory(memory + kBytes / 2));
}

TEST(RegionCopy, MergesWhatLiesTogether) {
  // A whole row panel, a band of a matrix, one column.
  EXPECT_TRUE(CopyOverlap(4, {{0, 0}, {100, 50}}, {{20, 0}, {30, 50}})->contiguous());
  std::optional<RegionCopy> band = CopyOverlap(4, {{0, 0}, {100, 800}}, {{0, 100}, {100, 100}});
  EXPECT_EQ(band->run_bytes(), 400u);
  EXPECT_EQ(band->src_offset(), 400);
  std::optional<RegionCopy> column = CopyOverlap(4, {{0, 0}, {100, 800}}, {{7, 5}, {3, 1}});
  EXPECT_EQ(column->run_bytes(), 4u);
  EXPECT_EQ(column->bytes(), 12u);
  EXPECT_FALSE(CopyOverlap(4, {{0, 0}, {10, 10}}, {{10, 0}, {10, 10}}).has_value());
  EXPECT_FALSE(CopyOverlap(4, {{0}, {0}}, {{0}, {5}}).has_value());
  EXPECT_TRUE(CopyOverlap(8, {}, {})->contiguous());
}

TEST(RegionCopy, CopiesTheOverlapOfTwoBoxesOfOneTensor) {
  SeededRandom random(22);
  int met = 0;
  for (int i = 0; i < 5000; ++i) {
    DType dtype = AllDTypes()[random.Below(AllDTypes().size())];
    Shape shape(random.Below(4));
    for (uint64_t& size : shape) size = 1 + random.Below(8);
    if (!TensorBytes(dtype, shape).ok()) continue;
    TestTensor tensor(dtype, shape, random);
    auto box = [&] {
      Region region;
      for (uint64_t size : shape) {
        uint64_t a = random.Below(size), b = 1 + random.Below(size - a);
        region.start.push_back(a);
        region.extent.push_back(b);
      }
      return region;
    };
    Region src = box(), dst = box();
    auto copy = CopyBetweenRegions(dtype, shape, src, dst);
    if (!copy.ok()) {
      ASSERT_TRUE(IsSubByte(dtype)) << ErrorText(copy.status());
      continue;
    }
    if (!copy->has_value()) continue;
    ++met;
    std::vector<uint8_t> from = tensor.Tile(src), to = tensor.Tile(dst);
    std::vector<uint8_t> expected = to;
    // Wipe what the source does not have; the copy brings exactly the rest.
    std::vector<uint8_t> out(to.size(), 0);
    (*copy)->Run(from.data(), out.data());
    uint64_t equal = 0;
    for (size_t b = 0; b < out.size(); ++b) {
      ASSERT_TRUE(out[b] == expected[b] || out[b] == 0);
      equal += out[b] == expected[b];
    }
    ASSERT_GE(equal, (*copy)->bytes());
  }
  EXPECT_GT(met, 1500);
}

}  // namespace
}  // namespace tilekv
