// Elements of one dtype as elements of another.
//
// Rounded to nearest, ties to even, once. To a floating type: a number beyond its largest becomes
// infinity, and is counted; NaN stays NaN with its sign, its payload is not kept. To a floating
// type without infinity (F8_E4M3 and the FNUZ types) and to an integer: what it cannot hold (a
// number beyond its range, infinity, to an integer NaN too) is an error. BOOL takes 0 and 1. Pure
// and thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kvstore/base/bytes.h"
#include "tensor_chunking/dtype.h"

namespace tilekv {

class ElementConverter {
 public:
  // INVALID_ARGUMENT where one of them is no number, or is F8_E8M0, to which nothing is rounded.
  static absl::Status Check(DType from, DType to);
  // Of a pair that Check takes.
  ElementConverter(DType from, DType to) : from_(from), to_(to) {}

  // `out` has room for exactly the elements of `in`. INVALID_ARGUMENT names an element that `to`
  // cannot hold by its number, of which the first here is `first_element`.
  absl::Status Convert(Bytes in, MutableBytes out, uint64_t first_element);
  // Finite numbers that became infinite so far.
  uint64_t overflowed() const { return overflowed_; }

 private:
  const DType from_;
  const DType to_;
  uint64_t overflowed_ = 0;
};

}  // namespace tilekv
