// The elements of a .npy file as everything else here has them: row-major and little-endian.
#pragma once

#include "absl/status/status.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "tensor_chunking/formats/npy.h"
#include "tensor_chunking/formats/zip_directory.h"
#include "tensor_chunking/shape.h"

namespace tilekv {

// What reading holds beside the destination where the file is in Fortran order.
inline constexpr uint64_t kTransposeBytes = 2 * kMiB;

// Fills `out` with the row-major, little-endian content from `offset`; offset + out.size() is at
// most header.data_bytes. `read` reads the file (or the member of an archive). A Fortran-ordered
// file is read in long runs into a buffer of at most kTransposeBytes and turned there; ask for
// many rows at a time, or for a box, since every element of a run costs a read of its own when
// only one row is wanted. A range that cuts elements needs a copy of itself. Thread-safe where
// `read` is.
absl::Status ReadNpyContent(const NpyHeader& header, ReadFileBytes read, uint64_t offset,
                            MutableBytes out);
// The same for a box of a Fortran-ordered file (checked), in C order: what a tile is.
absl::Status ReadNpyBox(const NpyHeader& header, ReadFileBytes read, const Region& box,
                        MutableBytes out);

}  // namespace tilekv
