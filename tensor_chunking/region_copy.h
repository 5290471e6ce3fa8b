// Strided copies between buffers that hold boxes of one tensor. A copy is planned once (dimensions
// that lie one after another in both buffers are merged, so that a band of a matrix becomes one
// memcpy a row) and run on any pair of buffers. Planning and running are pure; a plan is immutable
// and thread-safe, and Run may be called from several threads on disjoint destinations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "kvstore/base/bytes.h"
#include "tensor_chunking/shape.h"

namespace tilekv {

// One dimension of a copy. Strides in bytes, of either sign.
struct CopyDim {
  uint64_t count = 0;
  int64_t src_stride = 0;
  int64_t dst_stride = 0;

  friend bool operator==(const CopyDim&, const CopyDim&) = default;
};

class RegionCopy {
 public:
  // Copies nothing.
  RegionCopy() = default;
  // Units of `unit_bytes` (at least 1); the first one goes from src + src_offset to dst +
  // dst_offset. `dims` outermost first; a count of zero copies nothing.
  RegionCopy(uint64_t unit_bytes, int64_t src_offset, int64_t dst_offset,
             std::span<const CopyDim> dims);

  // The caller's to get right: both buffers cover what the strides reach, and do not overlap.
  void Run(const uint8_t* src, uint8_t* dst) const;

  // Whether the source's bytes are taken in order from src_offset(), none left out.
  bool source_in_order() const;
  // What Run does with `piece` of the source, which begins `offset` bytes after src_offset(). Only
  // where source_in_order().
  void RunPiece(uint64_t offset, Bytes piece, uint8_t* dst) const;
  // The same into memory that will not be read soon (stream_copy.h).
  void StreamPiece(uint64_t offset, Bytes piece, uint8_t* dst) const;
  // The memory that RunPiece writes for a piece of `length` bytes, in order: appended to `pieces`.
  void PiecesOf(uint64_t offset, uint64_t length, uint8_t* dst,
                std::vector<MutableBytes>& pieces) const;

  // The same units in the other direction: what was the destination is read.
  RegionCopy Reversed() const;
  // The same copy from a buffer that begins `bytes` earlier.
  RegionCopy WithSourceShifted(int64_t bytes) const;

  uint64_t bytes() const { return bytes_; }
  // One memcpy from src_offset() to dst_offset().
  bool contiguous() const { return dims_.empty(); }
  // Bytes of each memcpy.
  uint64_t run_bytes() const { return run_bytes_; }
  int64_t src_offset() const { return src_offset_; }
  int64_t dst_offset() const { return dst_offset_; }

 private:
  using Dims = absl::InlinedVector<CopyDim, 3>;

  // Calls `run(destination, bytes)` for what RunPiece writes, in order.
  template <typename OnRun>
  void ForRunsOf(uint64_t offset, uint64_t length, uint8_t* dst, OnRun run) const;
  void RunDim(size_t dim, const uint8_t* src, uint8_t* dst) const;

  uint64_t run_bytes_ = 0;
  uint64_t bytes_ = 0;
  int64_t src_offset_ = 0;
  int64_t dst_offset_ = 0;
  Dims dims_;  // outermost first
};

// Strides in bytes of a buffer that holds a box of these extents in C order.
absl::InlinedVector<int64_t, 4> DenseStrides(uint64_t unit_bytes, ShapeSpan extents);

// What two buffers have in common, each holding a box of one tensor in C order: from the source to
// the destination. None where the boxes do not meet. Boxes in units of `unit_bytes`.
std::optional<RegionCopy> CopyOverlap(uint64_t unit_bytes, const Region& src, const Region& dst);

// The same for boxes of elements, dtypes below a byte included: INVALID_ARGUMENT where an edge lies
// inside a byte. Boxes lie within `shape` (the caller's to get right). Tile to tensor, panel buffer
// to tile, any way round.
absl::StatusOr<std::optional<RegionCopy>> CopyBetweenRegions(DType dtype, ShapeSpan shape,
                                                             const Region& src, const Region& dst);

}  // namespace tilekv
