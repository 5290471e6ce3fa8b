// A selection cut into parts, each contiguous in the row-major result, so that what is larger than
// memory is taken piece by piece. Pure and immutable.
#pragma once

#include <cstdint>

#include "tensor_chunking/dtype.h"
#include "tensor_chunking/slice.h"
#include "tensor_chunking/tile_grid.h"

namespace tilekv {

struct SlicePart {
  ResolvedSlice slice;
  uint64_t offset_bytes = 0;  // in the result
  uint64_t bytes = 0;
};

class SliceParts {
 public:
  // Parts of at most `max_bytes` (at least one element). Where a part holds several rows of tiles
  // it ends with one, so that no tile is read twice. A selection of a dtype below a byte that
  // cannot be cut at bytes is one part.
  SliceParts(DType dtype, const TileGrid& grid, const ResolvedSlice& slice, uint64_t max_bytes);

  // At least one; of an empty selection the only one is empty.
  uint64_t size() const { return outer_ * chunks_; }
  SlicePart At(uint64_t index) const;
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  void Cut(const TileGrid& grid, uint64_t max_bytes);
  uint64_t ElementBytes(uint64_t elements) const { return elements * bits_ / 8; }

  const ResolvedSlice whole_;
  const uint64_t bits_;
  uint64_t total_bytes_ = 0;
  size_t axis_ = 0;      // of the result, which is cut; axes before it are taken one by one
  uint64_t outer_ = 1;   // combinations of the axes before it
  uint64_t inner_ = 1;   // elements behind one index of it
  uint64_t chunks_ = 1;  // parts along it
  uint64_t first_ = 0;   // indices in the first of them
  uint64_t chunk_ = 0;   // in the others; the last may have fewer. 0: not cut at all
};

}  // namespace tilekv
