#include "tensor_chunking/slice_parts.h"

#include <algorithm>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

// Indices that make whole bytes of every dtype.
constexpr uint64_t kByteAligned = 8;

// The dimension of the tensor that an axis of the result is; null for a new axis.
const SliceDim* DimOf(const ResolvedSlice& slice, size_t axis, size_t& dimension) {
  for (dimension = 0; dimension < slice.dims.size(); ++dimension) {
    if (slice.dims[dimension].axis == static_cast<int>(axis)) return &slice.dims[dimension];
  }
  return nullptr;
}

// `count` indices of an axis from its `begin`-th on.
void Narrow(ResolvedSlice& slice, size_t axis, uint64_t begin, uint64_t count) {
  slice.result_shape[axis] = count;
  for (SliceDim& dim : slice.dims) {
    if (dim.axis != static_cast<int>(axis)) continue;
    dim.start = static_cast<uint64_t>(static_cast<int64_t>(dim.start) +
                                      static_cast<int64_t>(begin) * dim.step);
    dim.count = count;
  }
}

}  // namespace

SliceParts::SliceParts(DType dtype, const TileGrid& grid, const ResolvedSlice& slice,
                       uint64_t max_bytes)
    : whole_(slice), bits_(DTypeBits(dtype)) {
  total_bytes_ = ElementBytes(ProductOf(slice.result_shape));
  max_bytes = std::max(max_bytes, (bits_ + 7) / 8);
  if (total_bytes_ > max_bytes) Cut(grid, max_bytes);
}

void SliceParts::Cut(const TileGrid& grid, uint64_t max_bytes) {
  const Shape& shape = whole_.result_shape;
  size_t axis = 0;
  uint64_t outer = 1;
  uint64_t inner = ProductOf(ShapeSpan(shape).subspan(1));
  while (ElementBytes(inner) > max_bytes) {
    outer *= shape[axis];
    ++axis;
    inner /= shape[axis];
  }
  uint64_t chunk = std::max<uint64_t>(max_bytes * 8 / (inner * bits_), 1);
  if (inner * bits_ % 8 != 0) {
    if (outer > 1 || chunk < kByteAligned) return;
    chunk -= chunk % kByteAligned;
  }
  uint64_t first = chunk;
  size_t dimension = 0;
  const SliceDim* dim = DimOf(whole_, axis, dimension);
  if (dim != nullptr && dim->step == 1 && inner * bits_ % 8 == 0) {
    const uint64_t tile = grid.tile_shape()[dimension];
    if (chunk >= tile) {
      chunk -= chunk % tile;
      first = chunk - dim->start % tile;
    }
  }
  axis_ = axis;
  outer_ = outer;
  inner_ = inner;
  chunk_ = chunk;
  first_ = std::min(first, shape[axis]);
  chunks_ = 1 + (shape[axis] - first_ + chunk - 1) / chunk;
}

SlicePart SliceParts::At(uint64_t index) const {
  TILEKV_CHECK(index < size());
  SlicePart part{.slice = whole_, .offset_bytes = 0, .bytes = total_bytes_};
  if (chunk_ == 0) return part;
  const uint64_t extent = whole_.result_shape[axis_];
  const uint64_t number = index % chunks_;
  const uint64_t begin = number == 0 ? 0 : first_ + (number - 1) * chunk_;
  const uint64_t count = number == 0 ? first_ : std::min(chunk_, extent - begin);
  uint64_t outer = index / chunks_;
  part.offset_bytes = ElementBytes((outer * extent + begin) * inner_);
  part.bytes = ElementBytes(count * inner_);
  Narrow(part.slice, axis_, begin, count);
  for (size_t axis = axis_; axis-- > 0;) {
    const uint64_t size = whole_.result_shape[axis];
    Narrow(part.slice, axis, outer % size, 1);
    outer /= size;
  }
  return part;
}

}  // namespace tilekv
