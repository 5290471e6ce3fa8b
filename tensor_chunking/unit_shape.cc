#include "tensor_chunking/unit_shape.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<UnitShape> UnitShape::Of(DType dtype, ShapeSpan shape) {
  TILEKV_RETURN_IF_ERROR(TensorBytes(dtype, shape).status());
  UnitShape units;
  units.shape_.assign(shape.begin(), shape.end());
  units.dtype_ = dtype;
  units.dims_ = units.shape_;
  units.fold_axis_ = shape.size();
  if (!IsSubByte(dtype)) {
    units.unit_bytes_ = DTypeBytes(dtype);
    return units;
  }
  // Rank 0 is never whole bytes, so there is a dimension to fold.
  uint64_t bits = DTypeBits(dtype);
  size_t axis = shape.size();
  do {
    --axis;
    units.fold_bits_ = bits;
    bits *= shape[axis];
  } while (bits % 8 != 0);
  units.fold_axis_ = axis;
  units.dims_.resize(axis + 1);
  units.dims_[axis] = bits / 8;
  return units;
}

absl::Status UnitShape::FoldRange(uint64_t start, uint64_t extent, uint64_t& start_units,
                                  uint64_t& extent_units) const {
  TILEKV_CHECK(folded());
  uint64_t start_bits = start * fold_bits_;
  uint64_t extent_bits = extent * fold_bits_;
  if (start_bits % 8 != 0 || extent_bits % 8 != 0) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format(
            "range {}:{} of axis {} has an edge inside a byte: {} of shape {} takes {} bits "
            "an index there; use multiples of {}",
            start, start + extent, fold_axis_, DTypeName(dtype_), FormatShape(shape_), fold_bits_,
            fold_bits_ % 4 == 0 ? 2 : 4));
  }
  start_units = start_bits / 8;
  extent_units = extent_bits / 8;
  return absl::OkStatus();
}

absl::Status UnitShape::RequireWhole(ShapeSpan extents) const {
  for (size_t d = fold_axis_ + 1; d < shape_.size(); ++d) {
    if (extents[d] != shape_[d]) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("{} of {} indices of axis {} would begin or end inside a byte: "
                                   "{} of shape {} can only be cut in axes 0 to {}",
                                   extents[d], shape_[d], d, DTypeName(dtype_), FormatShape(shape_),
                                   fold_axis_));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Region> UnitShape::FoldRegion(const Region& region) const {
  if (!folded()) return region;
  TILEKV_RETURN_IF_ERROR(RequireWhole(region.extent));
  Region units = region;
  units.start.resize(fold_axis_ + 1);
  units.extent.resize(fold_axis_ + 1);
  TILEKV_RETURN_IF_ERROR(FoldRange(region.start[fold_axis_], region.extent[fold_axis_],
                                   units.start[fold_axis_], units.extent[fold_axis_]));
  return units;
}

absl::StatusOr<Shape> UnitShape::FoldTileShape(ShapeSpan tile_shape) const {
  Shape units(tile_shape.begin(), tile_shape.end());
  if (!folded() || ProductOf(shape_) == 0) return folded() ? dims_ : units;
  TILEKV_RETURN_IF_ERROR(RequireWhole(tile_shape));
  units.resize(fold_axis_ + 1);
  uint64_t size = shape_[fold_axis_];
  uint64_t tile = tile_shape[fold_axis_];
  uint64_t start = 0;
  // One tile that takes all is whole bytes; else each but the last ends where the next begins.
  TILEKV_RETURN_IF_ERROR(FoldRange(0, tile < size ? tile : size, start, units[fold_axis_]));
  return units;
}

}  // namespace tilekv
