#include "tensor_chunking/layout.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/pack.h"
#include "tensor_chunking/unit_shape.h"

namespace tilekv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Golden {
  DType dtype;
  Shape shape;
  LayoutKind kind;
  uint64_t tile_bytes;
  uint64_t limit_bytes;
  Shape tile_shape;
  uint64_t tiles;
};

constexpr auto kAuto = LayoutKind::kAuto;
constexpr auto kRows = LayoutKind::kRows;
constexpr auto kBands = LayoutKind::kBands;
constexpr uint64_t kTile = kDefaultTileBytes;
constexpr uint64_t kLimit = kDefaultMaxObjectBytes;

// Worked out by hand from docs/formats.md, section 6. A change here changes the digest of models.
const std::vector<Golden> kGolden = {
    // Bands of 1125 columns, 40.5 MB each: 5 panels.
    {DType::kF32, {9000, 9000}, kAuto, kTile, kLimit, {1800, 1125}, 40},
    // An embedding, 79 times as tall as wide.
    {DType::kF32, {30522, 384}, kAuto, kTile, kLimit, {5087, 384}, 6},
    {DType::kF32, {30522, 384}, kAuto, kTile, 16 * kMiB, {5087, 384}, 6},
    {DType::kBF16, {128256, 8192}, kAuto, kTile, kLimit, {511, 8192}, 251},
    // Exactly the object limit.
    {DType::kF32, {8192, 8192}, kAuto, kTile, kLimit, {2048, 1024}, 32},
    {DType::kF32, {8192, 8192}, kAuto, kLimit, kLimit, {8192, 1024}, 8},
    {DType::kF32, {8192, 8192}, kRows, kLimit, kLimit, {8192, 8192}, 1},
    {DType::kF32, {8193, 8192}, kRows, kLimit, kLimit, {4097, 8192}, 2},
    // Bands of 1 KiB a row, then four of them, then none.
    {DType::kBF16, {4096, 4096}, kAuto, kTile, kLimit, {4096, 512}, 8},
    {DType::kBF16, {2048, 2048}, kAuto, kTile, kLimit, {2048, 512}, 4},
    {DType::kBF16, {2048, 2047}, kAuto, kTile, kLimit, {2048, 2047}, 1},
    {DType::kBF16, {4096, 4095}, kAuto, kTile, kLimit, {1024, 4095}, 4},
    {DType::kF32, {4000, 1002}, kAuto, kTile, kLimit, {4000, 501}, 2},
    // Just below 8 MiB, and rows exactly eight times the columns.
    {DType::kF32, {2047, 1024}, kAuto, kTile, kLimit, {2047, 1024}, 1},
    {DType::kF32, {8192, 1024}, kAuto, kTile, kLimit, {2048, 1024}, 4},
    {DType::kF32, {8191, 1024}, kAuto, kTile, kLimit, {8191, 256}, 4},
    // Asked for, small or tall as it is.
    {DType::kF32, {1024, 1024}, kBands, kTile, kLimit, {1024, 256}, 4},
    {DType::kF32, {9000, 9000}, kRows, kTile, kLimit, {231, 9000}, 39},
    {DType::kF32, {90000, 7}, kBands, kTile, kLimit, {90000, 7}, 1},
    // One dimension: equal panels, no sliver.
    {DType::kF32, {2097152}, kAuto, kTile, kLimit, {2097152}, 1},
    {DType::kF32, {2097153}, kAuto, kTile, kLimit, {1048577}, 2},
    {DType::kU8, {2147483647}, kAuto, kTile, kLimit, {8388608}, 256},
    {DType::kU8, {2147483648}, kAuto, kTile, kLimit, {8388608}, 256},
    {DType::kU8, {4294967297}, kAuto, kTile, kLimit, {8372256}, 513},
    // Rows wider than a tile; of a band, too.
    {DType::kF32, {2, 4194304}, kAuto, kTile, kLimit, {2, 524288}, 8},
    {DType::kF32, {3, 4194305}, kAuto, kTile, kLimit, {1, 1398102}, 9},
    {DType::kF32, {3, 33554432}, kAuto, kTile, kLimit, {1, 2097152}, 48},
    // Slabs: grouped; larger than a tile.
    {DType::kF32, {64, 3, 224, 224}, kAuto, kTile, kLimit, {13, 3, 224, 224}, 5},
    {DType::kBF16, {8, 14336, 4096}, kAuto, kTile, kLimit, {1, 7168, 512}, 128},
    {DType::kBF16, {2, 2, 14336, 4096}, kAuto, kTile, kLimit, {1, 1, 7168, 512}, 64},
    {DType::kF32, {1, 1, 9000, 9000}, kAuto, kTile, kLimit, {1, 1, 1800, 1125}, 40},
    // The object limit below the tile size.
    {DType::kF32, {1024, 1024}, kAuto, kTile, 64 * kKiB, {16, 1024}, 64},
    {DType::kF32, {1000, 1000}, kAuto, kTile, 64 * kKiB, {16, 1000}, 63},
    // 62 panels of 3 rows would be 72,000 bytes: above the limit, so 2 rows.
    {DType::kF32, {168, 6000}, kRows, kTile, 64 * kKiB, {2, 6000}, 84},
    {DType::kF32, {100, 20000}, kAuto, kTile, 64 * kKiB, {1, 10000}, 200},
    // No elements, one element, small enough for a pack.
    {DType::kF32, {}, kAuto, kTile, kLimit, {}, 1},
    {DType::kF32, {0}, kAuto, kTile, kLimit, {1}, 0},
    {DType::kF32, {2, 0, 3}, kAuto, kTile, kLimit, {2, 1, 3}, 0},
    {DType::kF32, {255, 256}, kBands, kTile, kLimit, {255, 256}, 1},
    // Below a byte: rows of 12 bits go in pairs, elements in pairs or fours.
    {DType::kF4, {16777218, 3}, kAuto, kTile, kLimit, {4194306, 3}, 4},
    {DType::kF6E2M3, {16777220}, kAuto, kTile, kLimit, {8388612}, 2},
    {DType::kF4, {8192, 8192}, kAuto, kTile, kLimit, {8192, 2048}, 4},
    {DType::kF4, {2, 16777217}, kAuto, kTile, kLimit, {2, 16777217}, 1},
};

TEST(Layout, GivesTheTileShapesOfTheGoldenTable) {
  for (const Golden& row : kGolden) {
    SCOPED_TRACE(FormatShape(row.shape));
    auto tile = PlanLayout(row.dtype, row.shape, {row.kind, {}}, row.tile_bytes, row.limit_bytes);
    ASSERT_TRUE(tile.ok()) << ErrorText(tile.status());
    EXPECT_EQ(*tile, row.tile_shape);
    auto grid = TileGrid::Create(row.dtype, row.shape, *tile);
    ASSERT_TRUE(grid.ok()) << ErrorText(grid.status());
    EXPECT_EQ(grid->tile_count(), row.tiles);
  }
}

// A shape with up to `rank` dimensions whose product stays countable.
Shape RandomShape(Random& random, size_t max_rank, uint64_t max_size) {
  Shape shape(random.Below(max_rank + 1));
  for (uint64_t& size : shape) size = random.Below(max_size + 1);
  return shape;
}

TEST(Layout, KeepsEveryTileWithinTheLimitAndOnWholeBytes) {
  SeededRandom random(1);
  const LayoutKind kinds[] = {kAuto, kRows, kBands};
  int planned = 0;
  for (int i = 0; i < 20000; ++i) {
    DType dtype = AllDTypes()[random.Below(AllDTypes().size())];
    Shape shape = RandomShape(random, 4, uint64_t{1} << random.Below(20));
    uint64_t limit = kLeastMaxObjectBytes + random.Below(4 * kMiB);
    uint64_t tile_bytes = std::min(limit, kLeastTileBytes) + random.Below(2 * kMiB);
    LayoutRequest request{kinds[random.Below(3)], {}};
    auto tile = PlanLayout(dtype, shape, request, tile_bytes, limit);
    if (!tile.ok()) {
      // Only what cannot be cut, or is no tensor at all.
      EXPECT_TRUE(IsSubByte(dtype) || !TensorBytes(dtype, shape).ok()) << ErrorText(tile.status());
      continue;
    }
    ++planned;
    auto grid = TileGrid::Create(dtype, shape, *tile);
    ASSERT_TRUE(grid.ok()) << ErrorText(grid.status());
    if (grid->tile_count() == 0) continue;
    ASSERT_LE(grid->TileBytes(dtype, 0), limit);
  }
  EXPECT_GT(planned, 10000);
}

TEST(Layout, CutsAnExplicitTileShapeDownToTheTensor) {
  auto tile = PlanLayout(DType::kF32, ShapeSpan(Shape{1000, 300}),
                         {LayoutKind::kExplicit, {512, 512}}, kTile, kLimit);
  ASSERT_TRUE(tile.ok());
  EXPECT_THAT(*tile, ElementsAre(512, 300));
}

std::string PlanError(DType dtype, const Shape& shape, const LayoutRequest& request,
                      uint64_t tile_bytes = kTile, uint64_t limit = kLimit) {
  auto tile = PlanLayout(dtype, shape, request, tile_bytes, limit);
  return ErrorText(tile.status());
}

TEST(Layout, RefusesWhatCannotBeStoredAndSaysWhy) {
  LayoutRequest big{LayoutKind::kExplicit, {9000, 9000}};
  EXPECT_THAT(PlanError(DType::kF32, {9000, 9000}, big),
              HasSubstr("are 324,000,000 bytes (309.0 MiB); this store takes objects up to "
                        "268,435,456 bytes (256 MiB)"));
  LayoutRequest tiny{LayoutKind::kExplicit, {1, 1}};
  EXPECT_THAT(PlanError(DType::kF32, {9000, 9000}, tiny), HasSubstr("81,000,000 tiles"));
  EXPECT_THAT(
      PlanError(DType::kF32, {1000, 1000}, tiny),
      HasSubstr("tiles [1, 1] of F32 are 4 bytes; of more than 65,536 tiles each has 64 KiB "
                "at least, as [17, 1000] has for shape [1000, 1000]"));
  LayoutRequest narrow{LayoutKind::kExplicit, {128, 127}};
  EXPECT_THAT(PlanError(DType::kF32, {65'536, 32'768}, narrow), HasSubstr("65,024 bytes"));
  EXPECT_EQ(PlanError(DType::kF32, {1000, 1000}, narrow), "OK") << "few, whatever their size";
  LayoutRequest least{LayoutKind::kExplicit, {128, 128}};
  EXPECT_EQ(PlanError(DType::kF32, {65'536, 32'768}, least), "OK");
  // Of a store whose objects are small, less.
  LayoutRequest small{LayoutKind::kExplicit, {33, 400}};
  EXPECT_EQ(PlanError(DType::kF32, {64, 2048}, small, 64 * kKiB, 64 * kKiB), "OK");
  LayoutRequest whole{LayoutKind::kExplicit, {1000, 1000}};
  EXPECT_EQ(PlanError(DType::kU8, {1000, 1000}, whole), "OK");
  LayoutRequest flat{LayoutKind::kExplicit, {64}};
  EXPECT_THAT(PlanError(DType::kF32, {9000, 9000}, flat), HasSubstr("has 1 dimensions"));
  LayoutRequest odd{LayoutKind::kExplicit, {512, 511}};
  EXPECT_THAT(PlanError(DType::kF4, {4096, 4096}, odd), HasSubstr("inside a byte"));
  EXPECT_THAT(PlanError(DType::kF32, {9000, 9000}, {}, kMiB - 1), HasSubstr("is below 1 MiB"));
  EXPECT_THAT(PlanError(DType::kF4, {2, 262145}, {}, 64 * kKiB, 64 * kKiB),
              HasSubstr("cannot be cut on whole bytes"));
  EXPECT_THAT(PlanError(DType::kU8, {uint64_t{1} << 32, uint64_t{1} << 32}, {}),
              HasSubstr("2^64 bits or more"));
}

TEST(Layout, ReadsWhatTheCommandLineSays) {
  for (const char* text : {"auto", "rows", "bands", "1024x512", "7"}) {
    auto request = ParseLayout(text);
    ASSERT_TRUE(request.ok()) << text;
    EXPECT_EQ(LayoutText(*request), text);
  }
  for (const char* text :
       {"", "x", "1x", "x1", "0x5", "1x-1", "AUTO", "1 x 2", "1x2x", "99999999999999999999"}) {
    EXPECT_FALSE(ParseLayout(text).ok()) << text;
  }
}

TEST(Shape, CountsBitsWithoutWrapping) {
  const uint64_t k32 = uint64_t{1} << 32;
  EXPECT_EQ(*TensorBytes(DType::kU8, ShapeSpan(Shape{k32 + 1})), k32 + 1);
  EXPECT_EQ(*TensorBytes(DType::kF64, ShapeSpan(Shape{k32, 1 << 20})), uint64_t{1} << 55);
  EXPECT_EQ(*TensorBytes(DType::kF6E2M3, ShapeSpan(Shape{4})), 3u);
  EXPECT_EQ(*TensorBytes(DType::kF4, ShapeSpan(Shape{k32 * 2 + 2})), k32 + 1);
  EXPECT_EQ(*TensorBytes(DType::kF32, ShapeSpan(Shape{0, k32})), 0u);
  EXPECT_EQ(*TensorBytes(DType::kF32, ShapeSpan(Shape{})), 4u);
  for (const Shape& shape : {Shape{k32, k32}, Shape{k32, k32, 0}, Shape{uint64_t{1} << 61},
                             Shape{uint64_t{3} << 62, 4}, Shape(65, 1)}) {
    auto bytes = TensorBytes(DType::kU8, shape, Reason::kInvalidFile);
    EXPECT_EQ(GetReason(bytes.status()), Reason::kInvalidFile) << FormatShape(shape);
  }
  EXPECT_FALSE(TensorBytes(DType::kF4, ShapeSpan(Shape{3})).ok());
  EXPECT_FALSE(TensorBytes(DType::kF4, ShapeSpan(Shape{})).ok());
}

TEST(DType, TablesAgree) {
  EXPECT_EQ(AllDTypes().size(), 22u);
  int previous = -1;
  for (DType dtype : AllDTypes()) {
    EXPECT_EQ(*ParseDType(DTypeName(dtype)), dtype);
    EXPECT_GT(DTypeWriterOrder(dtype), previous);
    previous = DTypeWriterOrder(dtype);
    DType from_code{};
    EXPECT_TRUE(DTypeFromCode(static_cast<uint8_t>(dtype), from_code));
    EXPECT_EQ(from_code, dtype);
    if (!DTypeNumpy(dtype).empty()) {
      EXPECT_EQ(*DTypeFromNumpy(DTypeNumpy(dtype)), dtype);
      EXPECT_EQ(DTypeNumpy(dtype).back() - '0', static_cast<int>(DTypeBytes(dtype)));
    }
  }
  DType dtype{};
  EXPECT_FALSE(DTypeFromCode(0, dtype) || DTypeFromCode(23, dtype));
  EXPECT_THAT(ErrorText(ParseDType("f32").status()), HasSubstr("F8_E4M3FNUZ"));
  EXPECT_FALSE(DTypeFromNumpy("").ok());
}

TEST(TileGrid, NumbersTilesInTheOrderOfTheirCoordinates) {
  TileGrid grid = *TileGrid::Create(ShapeSpan(Shape{10, 7}), ShapeSpan(Shape{4, 3}));
  EXPECT_THAT(grid.counts(), ElementsAre(3, 3));
  EXPECT_EQ(grid.TileRegion(0), (Region{{0, 0}, {4, 3}}));
  EXPECT_EQ(grid.TileRegion(2), (Region{{0, 6}, {4, 1}}));
  EXPECT_EQ(grid.TileRegion(3), (Region{{4, 0}, {4, 3}}));
  EXPECT_EQ(grid.TileRegion(8), (Region{{8, 6}, {2, 1}}));
  EXPECT_EQ(grid.TileElements(8), 2u);
}

TEST(TileGrid, PartitionsTheTensor) {
  SeededRandom random(2);
  for (int i = 0; i < 3000; ++i) {
    Shape shape = RandomShape(random, 4, 6);
    Shape tile = shape;
    for (uint64_t& size : tile) size = 1 + random.Below(std::max<uint64_t>(1, size));
    TileGrid grid = *TileGrid::Create(shape, tile);
    std::vector<int> seen(*ElementCount(shape), 0);
    for (uint64_t t = 0; t < grid.tile_count(); ++t) {
      Region region = grid.TileRegion(t);
      EXPECT_EQ(grid.TileAt(grid.Coordinates(t)), t);
      EXPECT_EQ(grid.TileElements(t), ProductOf(region.extent));
      for (uint64_t e = 0; e < ProductOf(region.extent); ++e) {
        uint64_t rest = e, index = 0, stride = 1;
        for (size_t d = shape.size(); d-- > 0;) {
          index += (region.start[d] + rest % region.extent[d]) * stride;
          rest /= region.extent[d];
          stride *= shape[d];
        }
        ++seen[index];
      }
    }
    ASSERT_THAT(seen, ::testing::Each(1)) << FormatShape(shape) << FormatShape(tile);
  }
}

TEST(TileGrid, IsRightBeyond32Bits) {
  const uint64_t k32 = uint64_t{1} << 32;
  TileGrid grid = *TileGrid::Create(DType::kF32, ShapeSpan(Shape{k32 + 1, 3}),
                                    ShapeSpan(Shape{uint64_t{1} << 20, 2}));
  EXPECT_EQ(grid.tile_count(), 4097u * 2);
  EXPECT_EQ(grid.TileRegion(4096 * 2 + 1), (Region{{k32, 2}, {1, 1}}));
  EXPECT_EQ(grid.TileBytes(DType::kF32, 4096 * 2 - 2), uint64_t{8} << 20);
}

TEST(TileGrid, RefusesTileShapesThatDoNotFit) {
  for (const Shape& tile : {Shape{4}, Shape{0, 1}, Shape{11, 7}, Shape{10, 7, 1}}) {
    EXPECT_FALSE(TileGrid::Create(ShapeSpan(Shape{10, 7}), tile).ok()) << FormatShape(tile);
  }
}

TEST(Pack, EndsAfterNamesWhoseHashSaysSoAndAligns) {
  std::vector<std::string> names;
  for (int i = 0; i < 2000; ++i) names.push_back("layer." + std::to_string(100000 + i));
  std::vector<PackCandidate> candidates;
  for (const std::string& name : names) candidates.push_back({name, 1000});
  std::vector<Pack> packs = PlanPacks(candidates, kLimit);
  EXPECT_GT(packs.size(), 150u);
  EXPECT_LT(packs.size(), 350u);
  uint64_t next = 0;
  for (const Pack& pack : packs) {
    uint64_t end = 0;
    for (const PackEntry& entry : pack.entries) {
      EXPECT_EQ(entry.candidate, next++);
      EXPECT_EQ(entry.offset_bytes, (end + 63) / 64 * 64);
      end = entry.offset_bytes + 1000;
    }
    EXPECT_EQ(pack.length_bytes, end);
  }
  EXPECT_EQ(next, names.size());
}

TEST(Pack, StaysWithinOneMiBAndTheObjectLimit) {
  SeededRandom random(3);
  for (uint64_t limit : {64 * kKiB, 100 * kKiB, kMiB, kLimit}) {
    std::vector<std::string> names;
    for (int i = 0; i < 500; ++i) names.push_back("n" + std::to_string(1000 + i));
    std::vector<PackCandidate> candidates;
    uint64_t wanted = 0, packed = 0;
    for (const std::string& name : names) {
      candidates.push_back({name, random.Below(300 * kKiB)});
      wanted += GoesToPack(candidates.back().bytes, limit);
    }
    for (const Pack& pack : PlanPacks(candidates, limit)) {
      EXPECT_LE(pack.length_bytes, std::min(kMaxPackBytes, limit));
      packed += pack.entries.size();
    }
    EXPECT_EQ(packed, wanted);
  }
}

TEST(Pack, OneMoreTensorDisturbsOnePack) {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("t" + std::to_string(10000 + 2 * i));
  auto contents = [](const std::vector<std::string>& names) {
    std::vector<PackCandidate> candidates;
    for (const std::string& name : names) candidates.push_back({name, 512});
    std::vector<std::string> out;
    for (const Pack& pack : PlanPacks(candidates, kLimit)) {
      std::string joined;
      for (const PackEntry& entry : pack.entries) joined += names[entry.candidate] + ",";
      out.push_back(joined);
    }
    return out;
  };
  std::vector<std::string> before = contents(names);
  names.insert(names.begin() + 500, "t10999");
  std::vector<std::string> after = contents(names);
  int fresh = 0;
  for (const std::string& pack : after) {
    fresh += std::find(before.begin(), before.end(), pack) == before.end();
  }
  EXPECT_GE(fresh, 1);
  EXPECT_LE(fresh, 2);
}

}  // namespace
}  // namespace tilekv
