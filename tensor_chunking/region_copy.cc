#include "tensor_chunking/region_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kvstore/base/status.h"
#include "tensor_chunking/stream_copy.h"
#include "tensor_chunking/unit_shape.h"

namespace tilekv {
namespace {

// Elements a side of the blocks that a transposition goes by: a block of both sides stays in the
// nearest cache.
constexpr uint64_t kBlockSide = 32;

template <size_t kBytes>
void CopyLine(const CopyDim& dim, const uint8_t* src, uint8_t* dst) {
  const int64_t src_stride = dim.src_stride;
  const int64_t dst_stride = dim.dst_stride;
  for (uint64_t i = 0; i < dim.count; ++i) {
    std::memcpy(dst, src, kBytes);
    src += src_stride;
    dst += dst_stride;
  }
}

// Two dimensions of which one is closer together in the source and the other in the destination.
template <size_t kBytes>
void CopyBlocks(const CopyDim& outer, const CopyDim& inner, const uint8_t* src, uint8_t* dst) {
  for (uint64_t i = 0; i < outer.count; i += kBlockSide) {
    const uint64_t rows = std::min(kBlockSide, outer.count - i);
    for (uint64_t j = 0; j < inner.count; j += kBlockSide) {
      CopyDim line = inner;
      line.count = std::min(kBlockSide, inner.count - j);
      for (uint64_t row = i; row < i + rows; ++row) {
        CopyLine<kBytes>(line,
                         src + static_cast<int64_t>(row) * outer.src_stride +
                             static_cast<int64_t>(j) * inner.src_stride,
                         dst + static_cast<int64_t>(row) * outer.dst_stride +
                             static_cast<int64_t>(j) * inner.dst_stride);
      }
    }
  }
}

bool IsTransposed(const CopyDim& outer, const CopyDim& inner) {
  return (std::abs(outer.src_stride) < std::abs(inner.src_stride)) !=
         (std::abs(outer.dst_stride) < std::abs(inner.dst_stride));
}

template <size_t kBytes>
void CopyPlane(const CopyDim& outer, const CopyDim& inner, const uint8_t* src, uint8_t* dst) {
  if (IsTransposed(outer, inner)) return CopyBlocks<kBytes>(outer, inner, src, dst);
  for (uint64_t i = 0; i < outer.count; ++i) {
    CopyLine<kBytes>(inner, src, dst);
    src += outer.src_stride;
    dst += outer.dst_stride;
  }
}

void CopyRuns(const CopyDim& outer, const CopyDim& inner, uint64_t run_bytes, const uint8_t* src,
              uint8_t* dst) {
  for (uint64_t i = 0; i < outer.count; ++i) {
    const uint8_t* from = src;
    uint8_t* to = dst;
    for (uint64_t j = 0; j < inner.count; ++j) {
      std::memcpy(to, from, run_bytes);
      from += inner.src_stride;
      to += inner.dst_stride;
    }
    src += outer.src_stride;
    dst += outer.dst_stride;
  }
}

// Whether the outer dimension goes on where the inner one ends, on both sides.
bool Continues(const CopyDim& outer, const CopyDim& inner) {
  int64_t count = static_cast<int64_t>(inner.count);
  return outer.src_stride == inner.src_stride * count &&
         outer.dst_stride == inner.dst_stride * count;
}

}  // namespace

RegionCopy::RegionCopy(uint64_t unit_bytes, int64_t src_offset, int64_t dst_offset,
                       std::span<const CopyDim> dims)
    : run_bytes_(unit_bytes), src_offset_(src_offset), dst_offset_(dst_offset) {
  TILEKV_CHECK(unit_bytes > 0);
  bytes_ = unit_bytes;
  for (const CopyDim& dim : dims) {
    bytes_ *= dim.count;
    if (dim.count == 1) continue;
    if (!dims_.empty() && Continues(dims_.back(), dim)) {
      uint64_t count = dims_.back().count * dim.count;
      dims_.back() = dim;
      dims_.back().count = count;
    } else {
      dims_.push_back(dim);
    }
  }
  if (bytes_ == 0) {
    dims_.clear();
    run_bytes_ = 0;
    return;
  }
  int64_t run = static_cast<int64_t>(run_bytes_);
  if (!dims_.empty() && dims_.back().src_stride == run && dims_.back().dst_stride == run) {
    run_bytes_ *= dims_.back().count;
    dims_.pop_back();
  }
}

void RegionCopy::Run(const uint8_t* src, uint8_t* dst) const {
  if (bytes_ == 0) return;
  RunDim(0, src + src_offset_, dst + dst_offset_);
}

void RegionCopy::RunDim(size_t dim, const uint8_t* src, uint8_t* dst) const {
  static constexpr CopyDim kOnce{1, 0, 0};
  const size_t left = dims_.size() - dim;
  if (left > 2) {
    for (uint64_t i = 0; i < dims_[dim].count; ++i) {
      RunDim(dim + 1, src, dst);
      src += dims_[dim].src_stride;
      dst += dims_[dim].dst_stride;
    }
    return;
  }
  const CopyDim& outer = left == 2 ? dims_[dim] : kOnce;
  const CopyDim& inner = left >= 1 ? dims_.back() : kOnce;
  switch (run_bytes_) {
    case 1:
      return CopyPlane<1>(outer, inner, src, dst);
    case 2:
      return CopyPlane<2>(outer, inner, src, dst);
    case 4:
      return CopyPlane<4>(outer, inner, src, dst);
    case 8:
      return CopyPlane<8>(outer, inner, src, dst);
    case 16:
      return CopyPlane<16>(outer, inner, src, dst);
    default:
      return CopyRuns(outer, inner, run_bytes_, src, dst);
  }
}

bool RegionCopy::source_in_order() const {
  uint64_t stride = run_bytes_;
  for (size_t d = dims_.size(); d-- > 0;) {
    if (dims_[d].src_stride != static_cast<int64_t>(stride)) return false;
    stride *= dims_[d].count;
  }
  return true;
}

template <typename OnRun>
void RegionCopy::ForRunsOf(uint64_t offset, uint64_t length, uint8_t* dst, OnRun on_run) const {
  if (length == 0) return;
  // Which run the piece begins in, as an index of each dimension.
  absl::InlinedVector<uint64_t, 3> at(dims_.size());
  uint64_t run = offset / run_bytes_;
  uint64_t within = offset % run_bytes_;
  dst += dst_offset_;
  for (size_t d = dims_.size(); d-- > 0;) {
    at[d] = run % dims_[d].count;
    run /= dims_[d].count;
    dst += static_cast<int64_t>(at[d]) * dims_[d].dst_stride;
  }
  while (true) {
    uint64_t bytes = std::min<uint64_t>(run_bytes_ - within, length);
    on_run(dst + within, bytes);
    length -= bytes;
    if (length == 0) return;
    within = 0;
    for (size_t d = dims_.size(); d-- > 0;) {
      dst += dims_[d].dst_stride;
      if (++at[d] < dims_[d].count) break;
      dst -= static_cast<int64_t>(at[d]) * dims_[d].dst_stride;
      at[d] = 0;
    }
  }
}

void RegionCopy::RunPiece(uint64_t offset, Bytes piece, uint8_t* dst) const {
  const uint8_t* from = piece.data();
  ForRunsOf(offset, piece.size(), dst, [&from](uint8_t* to, uint64_t bytes) {
    std::memcpy(to, from, bytes);
    from += bytes;
  });
}

void RegionCopy::StreamPiece(uint64_t offset, Bytes piece, uint8_t* dst) const {
  const uint8_t* from = piece.data();
  ForRunsOf(offset, piece.size(), dst, [&from](uint8_t* to, uint64_t bytes) {
    StreamCopy(to, from, bytes);
    from += bytes;
  });
  FinishStreamCopies();
}

void RegionCopy::PiecesOf(uint64_t offset, uint64_t length, uint8_t* dst,
                          std::vector<MutableBytes>& pieces) const {
  ForRunsOf(offset, length, dst, [&pieces](uint8_t* to, uint64_t bytes) {
    pieces.push_back({to, bytes});
  });
}

RegionCopy RegionCopy::Reversed() const {
  RegionCopy reversed = *this;
  std::swap(reversed.src_offset_, reversed.dst_offset_);
  for (CopyDim& dim : reversed.dims_) std::swap(dim.src_stride, dim.dst_stride);
  return reversed;
}

RegionCopy RegionCopy::WithSourceShifted(int64_t bytes) const {
  RegionCopy shifted = *this;
  shifted.src_offset_ += bytes;
  return shifted;
}

absl::InlinedVector<int64_t, 4> DenseStrides(uint64_t unit_bytes, ShapeSpan extents) {
  absl::InlinedVector<int64_t, 4> strides(extents.size());
  int64_t stride = static_cast<int64_t>(unit_bytes);
  for (size_t d = extents.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= static_cast<int64_t>(extents[d]);
  }
  return strides;
}

std::optional<RegionCopy> CopyOverlap(uint64_t unit_bytes, const Region& src, const Region& dst) {
  const size_t rank = src.start.size();
  TILEKV_CHECK(dst.start.size() == rank);
  auto src_strides = DenseStrides(unit_bytes, src.extent);
  auto dst_strides = DenseStrides(unit_bytes, dst.extent);
  absl::InlinedVector<CopyDim, 4> dims(rank);
  int64_t src_offset = 0;
  int64_t dst_offset = 0;
  for (size_t d = 0; d < rank; ++d) {
    uint64_t begin = std::max(src.start[d], dst.start[d]);
    uint64_t end = std::min(src.start[d] + src.extent[d], dst.start[d] + dst.extent[d]);
    if (begin >= end) return std::nullopt;
    dims[d] = {end - begin, src_strides[d], dst_strides[d]};
    src_offset += static_cast<int64_t>(begin - src.start[d]) * src_strides[d];
    dst_offset += static_cast<int64_t>(begin - dst.start[d]) * dst_strides[d];
  }
  return RegionCopy(unit_bytes, src_offset, dst_offset, dims);
}

absl::StatusOr<std::optional<RegionCopy>> CopyBetweenRegions(DType dtype, ShapeSpan shape,
                                                             const Region& src, const Region& dst) {
  TILEKV_ASSIGN_OR_RETURN(UnitShape units, UnitShape::Of(dtype, shape));
  TILEKV_ASSIGN_OR_RETURN(Region src_units, units.FoldRegion(src));
  TILEKV_ASSIGN_OR_RETURN(Region dst_units, units.FoldRegion(dst));
  return CopyOverlap(units.unit_bytes(), src_units, dst_units);
}

}  // namespace tilekv
