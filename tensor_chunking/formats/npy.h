// Headers of .npy files: "\x93NUMPY", version, length, a Python dict with descr, fortran_order and
// shape. Bytes in, bytes out; no I/O here. Errors are INVALID_FILE and name the file as the caller
// calls it; where an array cannot be taken they say how to convert it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "tensor_chunking/dtype.h"
#include "tensor_chunking/shape.h"

namespace tilekv {

inline constexpr size_t kNpyStartBytes = 12;  // magic, version and length of every version

struct NpyHeader {
  DType dtype{};
  Shape shape;                 // the logical one, whatever the order of the bytes
  bool fortran_order = false;  // the first index varies fastest; false where it makes no difference
  bool big_endian = false;     // false for elements of one byte
  uint64_t data_start = 0;
  uint64_t data_bytes = 0;
};

// Where the data starts, out of the file's first bytes (`start`: the first min(kNpyStartBytes, file
// size) of them or more), checked against file size and kMaxNpyHeaderBytes. Versions 1, 2 and 3.
absl::StatusOr<uint64_t> NpyDataStart(Bytes start, uint64_t file_size, std::string_view file);

// Reads `preamble`, the file's bytes before its data. `dtype` says what raw elements are: NumPy
// writes types that it does not know (bfloat16, float8) as `V2`, `V1` or `f1`, and such data is
// also kept as integers of the same width; without it those are refused or plain integers. A
// `dtype` that contradicts the file is an error, and so is any length of file but the exact one.
absl::StatusOr<NpyHeader> ParseNpyHeader(Bytes preamble, uint64_t file_size, std::string_view file,
                                         std::optional<DType> dtype = std::nullopt);

// Magic to padding, as numpy.save writes it for a C-ordered little-endian array: version 1.0, 2.0
// where the dict is longer than that can say. BF16 and 8-bit floats are written as raw elements
// (`<V2`, `|V1`), as NumPy itself does. INVALID_ARGUMENT for dtypes below a byte, which .npy
// cannot hold.
absl::StatusOr<std::string> BuildNpyHeader(DType dtype, ShapeSpan shape);

}  // namespace tilekv
