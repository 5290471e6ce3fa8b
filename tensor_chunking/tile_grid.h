// How a tensor is cut: its shape and a tile shape, and the tiles that they give, numbered in C
// order of their coordinates (docs/formats.md, section 6). Pure; a grid is immutable and
// thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "tensor_chunking/dtype.h"
#include "tensor_chunking/shape.h"

namespace tilekv {

class TileGrid {
 public:
  // The grid of a scalar: one tile.
  TileGrid() = default;
  // INVALID_ARGUMENT where the shape overflows, the ranks differ, or a tile size is not 1 to
  // max(1, size).
  static absl::StatusOr<TileGrid> Create(ShapeSpan shape, ShapeSpan tile_shape);
  // The same, and no edge of a tile inside a byte, and whole bytes in all.
  static absl::StatusOr<TileGrid> Create(DType dtype, ShapeSpan shape, ShapeSpan tile_shape);

  size_t rank() const { return shape_.size(); }
  const Shape& shape() const { return shape_; }
  const Shape& tile_shape() const { return tile_shape_; }
  // Tiles along each dimension; 0 where the dimension is.
  const Shape& counts() const { return counts_; }
  // 0 for a tensor without elements.
  uint64_t tile_count() const { return tile_count_; }

  // `tile` is below tile_count(), coordinates below counts(): the caller's to get right (checked).
  Shape Coordinates(uint64_t tile) const;
  uint64_t TileAt(ShapeSpan coordinates) const;
  Region TileRegion(uint64_t tile) const;
  // Elements of the tile.
  uint64_t TileElements(uint64_t tile) const;
  // Whole bytes, by a grid made with this dtype.
  uint64_t TileBytes(DType dtype, uint64_t tile) const {
    return DTypeBits(dtype) >= 8 ? TileElements(tile) * DTypeBytes(dtype)
                                 : TileElements(tile) * DTypeBits(dtype) / 8;
  }

  friend bool operator==(const TileGrid&, const TileGrid&) = default;

 private:
  Shape shape_;
  Shape tile_shape_;
  Shape counts_;
  uint64_t tile_count_ = 1;
};

}  // namespace tilekv
