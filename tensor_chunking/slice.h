// NumPy's basic slicing: the text of a command line to items, items and a shape to a selection.
// Answers are NumPy's, to the shape and the order; what NumPy refuses is refused. Pure and
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tensor_chunking/shape.h"

namespace tilekv {

struct SliceItem {
  enum class Kind { kIndex, kRange, kEllipsis, kNewAxis };
  Kind kind = Kind::kRange;
  int64_t index = 0;                         // kIndex
  std::optional<int64_t> start, stop, step;  // kRange

  static SliceItem Index(int64_t index) { return {Kind::kIndex, index, {}, {}, {}}; }
  static SliceItem Range(std::optional<int64_t> start, std::optional<int64_t> stop,
                         std::optional<int64_t> step = std::nullopt) {
    return {Kind::kRange, 0, start, stop, step};
  }
  static SliceItem Ellipsis() { return {Kind::kEllipsis, 0, {}, {}, {}}; }
  static SliceItem NewAxis() { return {Kind::kNewAxis, 0, {}, {}, {}}; }

  friend bool operator==(const SliceItem&, const SliceItem&) = default;
};

// "0:10, ::-1", "...", "-3:", "5", "None, 2"; a comma after the last item is allowed, nothing at
// all selects everything. Brackets are not: in NumPy they are a list, and pick rows. Integers
// beyond 64 bits mean the nearest one, as bounds do in Python. INVALID_ARGUMENT names the item and
// says what is taken.
absl::StatusOr<std::vector<SliceItem>> ParseSlice(std::string_view text);

// What is taken of one dimension of the tensor: start, start + step, ... `count` of them, all
// within the dimension.
struct SliceDim {
  uint64_t start = 0;
  int64_t step = 1;
  uint64_t count = 0;
  int axis = -1;  // of the result; -1: an index, which the result has no axis for

  friend bool operator==(const SliceDim&, const SliceDim&) = default;
};

struct ResolvedSlice {
  std::vector<SliceDim> dims;  // one for each dimension of the tensor
  Shape result_shape;          // kept dimensions and new axes, in order

  friend bool operator==(const ResolvedSlice&, const ResolvedSlice&) = default;
};

// INVALID_ARGUMENT: an index out of range (axis, index and size named), a step of zero, more items
// than dimensions, a second ellipsis, a result of more than kMaxRank dimensions.
absl::StatusOr<ResolvedSlice> ResolveSlice(std::span<const SliceItem> items, ShapeSpan shape);
// Parses and resolves.
absl::StatusOr<ResolvedSlice> ResolveSlice(std::string_view text, ShapeSpan shape);
ResolvedSlice WholeSlice(ShapeSpan shape);

// The share of one of `world` equal parties along an axis (negative: from the end). Sizes that
// `world` does not divide are allowed: the first size % world shards are one larger, as
// numpy.array_split has it, and later ones may be empty. INVALID_ARGUMENT for an axis that is not
// there and for a rank not below `world`.
absl::StatusOr<ResolvedSlice> ShardSlice(ShapeSpan shape, uint64_t rank, uint64_t world,
                                         int64_t axis);

}  // namespace tilekv
