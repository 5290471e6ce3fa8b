#include "tensor_chunking/tile_grid.h"

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/unit_shape.h"

namespace tilekv {

absl::StatusOr<TileGrid> TileGrid::Create(ShapeSpan shape, ShapeSpan tile_shape) {
  TILEKV_ASSIGN_OR_RETURN(uint64_t elements, ElementCount(shape));
  if (shape.size() != tile_shape.size()) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("tile shape {} has {} dimensions, the tensor of shape {} has {}",
                    FormatShape(tile_shape), tile_shape.size(), FormatShape(shape), shape.size()));
  }
  TileGrid grid;
  grid.shape_.assign(shape.begin(), shape.end());
  grid.tile_shape_.assign(tile_shape.begin(), tile_shape.end());
  grid.counts_.resize(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (tile_shape[d] < 1 || tile_shape[d] > std::max<uint64_t>(1, shape[d])) {
      return MakeError(
          Reason::kInvalidArgument,
          fmt::format("tile shape {} does not fit shape {}: size {} in dimension {} is "
                      "not 1 to {}",
                      FormatShape(tile_shape), FormatShape(shape), tile_shape[d], d,
                      std::max<uint64_t>(1, shape[d])));
    }
    grid.counts_[d] = CeilDiv(shape[d], tile_shape[d]);
  }
  grid.tile_count_ = elements == 0 ? 0 : ProductOf(grid.counts_);
  return grid;
}

absl::StatusOr<TileGrid> TileGrid::Create(DType dtype, ShapeSpan shape, ShapeSpan tile_shape) {
  TILEKV_ASSIGN_OR_RETURN(TileGrid grid, Create(shape, tile_shape));
  TILEKV_ASSIGN_OR_RETURN(UnitShape units, UnitShape::Of(dtype, shape));
  TILEKV_RETURN_IF_ERROR(units.FoldTileShape(tile_shape).status());
  return grid;
}

Shape TileGrid::Coordinates(uint64_t tile) const {
  TILEKV_CHECK(tile < tile_count_);
  Shape coordinates(rank());
  for (size_t d = rank(); d-- > 0;) {
    coordinates[d] = tile % counts_[d];
    tile /= counts_[d];
  }
  return coordinates;
}

uint64_t TileGrid::TileAt(ShapeSpan coordinates) const {
  TILEKV_CHECK(coordinates.size() == rank());
  uint64_t tile = 0;
  for (size_t d = 0; d < rank(); ++d) {
    TILEKV_CHECK(coordinates[d] < counts_[d]);
    tile = tile * counts_[d] + coordinates[d];
  }
  return tile;
}

Region TileGrid::TileRegion(uint64_t tile) const {
  Region region{Coordinates(tile), tile_shape_};
  for (size_t d = 0; d < rank(); ++d) {
    region.start[d] *= tile_shape_[d];
    region.extent[d] = std::min(tile_shape_[d], shape_[d] - region.start[d]);
  }
  return region;
}

uint64_t TileGrid::TileElements(uint64_t tile) const {
  TILEKV_CHECK(tile < tile_count_);
  uint64_t elements = 1;
  for (size_t d = rank(); d-- > 0;) {
    uint64_t start = tile % counts_[d] * tile_shape_[d];
    tile /= counts_[d];
    elements *= std::min(tile_shape_[d], shape_[d] - start);
  }
  return elements;
}

}  // namespace tilekv
