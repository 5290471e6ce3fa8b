// The elements of a .npy file as everything else here has them: row-major and little-endian.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kvstore/base/bytes.h"
#include "tensor_chunking/formats/npy.h"

namespace tilekv {

// Reads bytes at an offset of the file, all of them or an error.
using ReadFileBytes = absl::FunctionRef<absl::Status(uint64_t offset, MutableBytes out)>;

// Fills `out` with the row-major, little-endian content from `offset`; offset + out.size() is at
// most header.data_bytes. A Fortran-ordered file is gathered in file order: ask for many whole rows
// at a time, since every index of the other dimensions costs a read. Needs memory for
// 64 KiB or one column of the range, and for a range that cuts elements a copy of it. Thread-safe
// where `read` is.
absl::Status ReadNpyContent(const NpyHeader& header, ReadFileBytes read, uint64_t offset,
                            MutableBytes out);

}  // namespace tilekv
