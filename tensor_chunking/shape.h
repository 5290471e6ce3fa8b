// Shapes of tensors, and sizes computed in bits without wrapping. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/dtype.h"

namespace tilekv {

using Shape = std::vector<uint64_t>;
using ShapeSpan = std::span<const uint64_t>;

// "[9000, 9000]", "[]". Cut after 16 dimensions, for messages.
std::string FormatShape(ShapeSpan shape);

// Elements of a shape; rank 0 has one, a dimension of zero gives none. An error with `reason`
// (kInvalidFile where a file says so) for a rank above kMaxRank and for a product of 2^64 or more,
// dimensions of zero left out: strides of a valid shape never overflow.
absl::StatusOr<uint64_t> ElementCount(ShapeSpan shape, Reason reason = Reason::kInvalidArgument);

// Bytes of a tensor. As above, for the size in bits; and an error where it is not a whole number of
// bytes.
absl::StatusOr<uint64_t> TensorBytes(DType dtype, ShapeSpan shape,
                                     Reason reason = Reason::kInvalidArgument);

// A box of elements inside a tensor, one entry per dimension.
struct Region {
  Shape start;
  Shape extent;

  friend bool operator==(const Region&, const Region&) = default;
  // The whole of a tensor.
  static Region Whole(ShapeSpan shape) {
    return {Shape(shape.size(), 0), Shape(shape.begin(), shape.end())};
  }
};

// The product of sizes that are known not to overflow: parts of a shape that passed the checks
// above.
constexpr uint64_t ProductOf(ShapeSpan sizes) {
  uint64_t product = 1;
  for (uint64_t size : sizes) product *= size;
  return product;
}

}  // namespace tilekv
