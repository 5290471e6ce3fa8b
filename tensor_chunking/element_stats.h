// What the elements of a tensor are like, and how those of two tensors of one dtype differ:
// gathered piece by piece, in any order, and put together. Pure; one thread for each object.
//
// Real numbers are long doubles here: on the usual machines they hold 64-bit integers exactly.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kvstore/base/bytes.h"
#include "tensor_chunking/dtype.h"

namespace tilekv {

struct ElementStats {
  uint64_t count = 0;
  uint64_t zeros = 0;
  uint64_t subnormals = 0;
  uint64_t nans = 0;
  uint64_t infinities = 0;
  // Of the finite ones, of which there are finite(): meaningless where there are none.
  long double least = 0;
  long double greatest = 0;
  long double mean = 0;
  long double squares = 0;  // sum of squared distances from the mean

  uint64_t finite() const { return count - nans - infinities; }
  // Of the population, as numpy.std has it.
  long double deviation() const;

  // Elements of a dtype that CheckNumeric (elements.h) takes.
  void Add(DType dtype, Bytes elements);
  void Merge(const ElementStats& other);
};

struct ElementChanges {
  uint64_t count = 0;
  uint64_t changed = 0;  // with other bits
  // |new - old|, and the same by |old| where that is not zero; of elements finite in both.
  long double largest_absolute = 0;
  long double largest_relative = 0;
  uint64_t new_nans = 0;  // that were none before
  uint64_t new_infinities = 0;

  // Elements at the same places; dtypes as above.
  void Add(DType dtype, Bytes older, Bytes newer);
  void Merge(const ElementChanges& other);
};

}  // namespace tilekv
