#include "tensor_chunking/slice_parts.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tilekv {
namespace {

// Row-major numbers of the elements that a selection takes.
std::vector<uint64_t> ElementsOf(const ResolvedSlice& slice, ShapeSpan shape) {
  std::vector<uint64_t> out = {0};
  for (size_t i = 0; i < shape.size(); ++i) {
    const SliceDim& dim = slice.dims[i];
    std::vector<uint64_t> next;
    for (uint64_t base : out) {
      for (uint64_t j = 0; j < dim.count; ++j) {
        uint64_t index = static_cast<uint64_t>(static_cast<int64_t>(dim.start) +
                                               static_cast<int64_t>(j) * dim.step);
        next.push_back(base * shape[i] + index);
      }
    }
    out = std::move(next);
  }
  return out;
}

void ExpectPartsMakeTheWhole(DType dtype, const Shape& shape, const Shape& tile,
                             const std::string& text, uint64_t max_bytes) {
  SCOPED_TRACE(text + " in parts of " + std::to_string(max_bytes));
  TileGrid grid = *TileGrid::Create(shape, tile);
  ResolvedSlice slice = *ResolveSlice(text, shape);
  SliceParts parts(dtype, grid, slice, max_bytes);
  std::vector<uint64_t> elements;
  for (uint64_t i = 0; i < parts.size(); ++i) {
    SlicePart part = parts.At(i);
    EXPECT_EQ(part.offset_bytes, elements.size() * DTypeBits(dtype) / 8);
    EXPECT_EQ(part.bytes, ProductOf(part.slice.result_shape) * DTypeBits(dtype) / 8);
    EXPECT_EQ(part.slice.result_shape.size(), slice.result_shape.size());
    if (DTypeBits(dtype) >= 8) {
      EXPECT_LE(part.bytes, std::max<uint64_t>(max_bytes, DTypeBytes(dtype)));
    }
    std::vector<uint64_t> own = ElementsOf(part.slice, shape);
    elements.insert(elements.end(), own.begin(), own.end());
  }
  EXPECT_EQ(elements, ElementsOf(slice, shape));
  EXPECT_EQ(parts.total_bytes(), elements.size() * DTypeBits(dtype) / 8);
}

TEST(SliceParts, InOrderTheyAreTheSelection) {
  const Shape shape = {7, 5, 6};
  for (const char* text : {"", "3", "::-1", "1:6, ::2, -1", "None, 2:, None, ...", "..., 3",
                           "5:2:-1, ::-2, ::3", "2:2", "4, 3, 2", ":, 1:4, None, 1:5"}) {
    for (uint64_t max_bytes : {1, 4, 9, 24, 60, 200, 100'000}) {
      ExpectPartsMakeTheWhole(DType::kF32, shape, {3, 5, 2}, text, max_bytes);
    }
  }
  ExpectPartsMakeTheWhole(DType::kF32, {}, {}, "", 1);
  ExpectPartsMakeTheWhole(DType::kU8, {0, 4}, {1, 4}, "", 1);
}

TEST(SliceParts, OfRandomSelectionsToo) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    Shape shape, tile;
    std::string text;
    for (uint32_t rank = 1 + random() % 3; rank > 0; --rank) {
      shape.push_back(1 + random() % 9);
      tile.push_back(1 + random() % shape.back());
      int64_t step = 1 + random() % 3;
      text += std::to_string(random() % 10) + ":" + std::to_string(random() % 10) + ":" +
              std::to_string(random() % 2 == 0 ? step : -step) + ",";
    }
    ExpectPartsMakeTheWhole(DType::kI16, shape, tile, text, 1 + random() % 64);
  }
}

TEST(SliceParts, EndWithARowOfTilesWhereTheyHoldSeveral) {
  TileGrid grid = *TileGrid::Create(Shape{100, 4}, Shape{10, 4});
  SliceParts parts(DType::kU8, grid, *ResolveSlice("3:97", grid.shape()), 25 * 4);
  std::vector<uint64_t> ends;
  for (uint64_t i = 0; i < parts.size(); ++i) {
    const SliceDim dim = parts.At(i).slice.dims[0];
    ends.push_back(dim.start + dim.count);
  }
  EXPECT_EQ(ends, (std::vector<uint64_t>{20, 40, 60, 80, 97}));
}

TEST(SliceParts, OfADtypeBelowAByteEndAtBytes) {
  ExpectPartsMakeTheWhole(DType::kF4, {5, 16}, {5, 16}, "", 9);
  ExpectPartsMakeTheWhole(DType::kF4, {400}, {400}, "", 9);
  ExpectPartsMakeTheWhole(DType::kF6E2M3, {64}, {64}, "8:56", 7);
  // Rows of half bytes cannot be parted.
  TileGrid grid = *TileGrid::Create(Shape{6, 3}, Shape{6, 3});
  EXPECT_EQ(SliceParts(DType::kF4, grid, WholeSlice(grid.shape()), 2).size(), 1u);
}

}  // namespace
}  // namespace tilekv
