// A tensor seen in units of whole bytes, so that code below it never meets a bit.
//
// For dtypes of a byte and more the unit is the element and nothing changes. For smaller ones the
// unit is a byte, and the trailing dimensions are folded into one dimension of bytes: as many as it
// takes for an index of the dimension before them to be whole bytes. What selects part of the
// folded dimensions must begin and end on bytes there, or it is refused. Pure; immutable and
// thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "tensor_chunking/dtype.h"
#include "tensor_chunking/shape.h"

namespace tilekv {

class UnitShape {
 public:
  // INVALID_ARGUMENT for a shape that TensorBytes refuses.
  static absl::StatusOr<UnitShape> Of(DType dtype, ShapeSpan shape);

  uint64_t unit_bytes() const { return unit_bytes_; }
  // Sizes in units. Its rank is the tensor's, or fold_axis() + 1.
  const Shape& dims() const { return dims_; }
  bool folded() const { return fold_bits_ != 0; }
  // The first of the dimensions that became bytes; the tensor's rank where none did.
  size_t fold_axis() const { return fold_axis_; }

  // A range of indices of the fold axis, all of the dimensions after it, in bytes. INVALID_ARGUMENT
  // where it begins or ends inside a byte. Only where folded().
  absl::Status FoldRange(uint64_t start, uint64_t extent, uint64_t& start_units,
                         uint64_t& extent_units) const;
  // A region of the tensor in units. INVALID_ARGUMENT as above, and where a dimension after the
  // fold axis is not taken whole.
  absl::StatusOr<Region> FoldRegion(const Region& region) const;
  // A tile shape in units, where every tile that it gives is whole bytes.
  absl::StatusOr<Shape> FoldTileShape(ShapeSpan tile_shape) const;

 private:
  absl::Status RequireWhole(ShapeSpan extents) const;

  Shape shape_;
  DType dtype_ = DType::kU8;
  uint64_t unit_bytes_ = 1;
  Shape dims_;
  size_t fold_axis_ = 0;
  uint64_t fold_bits_ = 0;  // of one index of the fold axis; 0: not folded
};

}  // namespace tilekv
