#include "tensor_chunking/shape.h"

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"

namespace tilekv {
namespace {

constexpr size_t kShownDimensions = 16;

// The product times `unit` of all dimensions that are not zero.
absl::StatusOr<uint64_t> NonZeroProduct(ShapeSpan shape, uint64_t unit, std::string_view unit_name,
                                        Reason reason) {
  if (shape.size() > kMaxRank) {
    return MakeError(reason, fmt::format("shape {} has {} dimensions; at most {} are supported",
                                         FormatShape(shape), shape.size(), kMaxRank));
  }
  uint64_t product = unit;
  for (uint64_t size : shape) {
    if (size != 0 && !CheckedMul(product, size, product)) {
      return MakeError(reason,
                       fmt::format("shape {} has 2^64 {} or more", FormatShape(shape), unit_name));
    }
  }
  return product;
}

bool HasZero(ShapeSpan shape) {
  for (uint64_t size : shape) {
    if (size == 0) return true;
  }
  return false;
}

}  // namespace

std::string FormatShape(ShapeSpan shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size() && i < kShownDimensions; ++i) {
    if (i > 0) out += ", ";
    out += fmt::format("{}", shape[i]);
  }
  if (shape.size() > kShownDimensions) out += ", ...";
  return out + "]";
}

absl::StatusOr<uint64_t> ElementCount(ShapeSpan shape, Reason reason) {
  TILEKV_ASSIGN_OR_RETURN(uint64_t product, NonZeroProduct(shape, 1, "elements", reason));
  return HasZero(shape) ? 0 : product;
}

absl::StatusOr<uint64_t> TensorBytes(DType dtype, ShapeSpan shape, Reason reason) {
  TILEKV_ASSIGN_OR_RETURN(uint64_t bits, NonZeroProduct(shape, DTypeBits(dtype), "bits", reason));
  if (HasZero(shape)) return 0;
  if (bits % 8 != 0) {
    return MakeError(reason, fmt::format("{} of shape {} takes {} bits, which are not whole bytes",
                                         DTypeName(dtype), FormatShape(shape), bits));
  }
  return bits / 8;
}

}  // namespace tilekv
