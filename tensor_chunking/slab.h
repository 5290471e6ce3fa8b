// Slabs: the tiles of one range of a tensor's first dimension, taken together. A slab's content is
// contiguous in the row-major tensor, so files are read and written a slab at a time, whatever the
// tiles are: one tile (row panels), or a row of them. Pure; docs/formats.md, section 6, has the
// order of tiles.
#pragma once

#include <cstdint>

#include "tensor_chunking/dtype.h"
#include "tensor_chunking/tile_grid.h"

namespace tilekv {

struct Slab {
  uint64_t first_tile = 0;
  uint64_t tile_count = 0;
  Region region;        // of the tensor
  uint64_t offset = 0;  // bytes into the row-major tensor
  uint64_t length = 0;
};

// 0 for a tensor without elements; 1 for rank 0.
uint64_t SlabCount(const TileGrid& grid);
// Whether each slab is one tile: tiles are then contiguous in the row-major tensor.
inline bool TilesAreSlabs(const TileGrid& grid) { return grid.tile_count() == SlabCount(grid); }
// `index` is below SlabCount (checked).
Slab SlabAt(const TileGrid& grid, DType dtype, uint64_t index);

}  // namespace tilekv
