#include "tensor_chunking/slab.h"

#include <algorithm>

#include "kvstore/base/status.h"

namespace tilekv {

uint64_t SlabCount(const TileGrid& grid) {
  if (grid.tile_count() == 0) return 0;
  return grid.rank() == 0 ? 1 : grid.counts()[0];
}

Slab SlabAt(const TileGrid& grid, DType dtype, uint64_t index) {
  uint64_t count = SlabCount(grid);
  TILEKV_CHECK(index < count);
  Slab slab;
  slab.tile_count = grid.tile_count() / count;
  slab.first_tile = index * slab.tile_count;
  slab.region = Region::Whole(grid.shape());
  uint64_t row_elements = 1;
  if (grid.rank() > 0) {
    uint64_t height = grid.tile_shape()[0];
    slab.region.start[0] = index * height;
    slab.region.extent[0] = std::min(height, grid.shape()[0] - index * height);
    row_elements = ProductOf(ShapeSpan(grid.shape()).subspan(1));
    slab.offset = slab.region.start[0] * row_elements * DTypeBits(dtype) / 8;
  }
  slab.length = ProductOf(slab.region.extent) * DTypeBits(dtype) / 8;
  return slab;
}

}  // namespace tilekv
