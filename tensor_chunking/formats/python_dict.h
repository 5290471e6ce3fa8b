// The Python dict in a .npy header, and nothing more of Python.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tensor_chunking/shape.h"

namespace tilekv {

struct NpyDict {
  std::string descr;        // "<f4"
  bool structured = false;  // descr is a list or a tuple: a structured array; the rest is not read
  bool fortran_order = false;
  Shape shape;
};

// Exactly the keys descr, fortran_order and shape, each once, in any order; white space behind the
// dict. Integers are unsigned 64-bit, with the `L` of Python 2 taken. INVALID_FILE says what and at
// which byte of the dict.
absl::StatusOr<NpyDict> ParseNpyDict(std::string_view text);

}  // namespace tilekv
