// Reading a tensor's source, whatever kind it is, and the tiles that are cut from it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/object/object_id.h"
#include "tensor_chunking/model_writer.h"
#include "tensor_chunking/shape.h"
#include "tensor_chunking/write_cost.h"

namespace tilekv {

// Bytes of the row-major content from `offset`, as many as `out` takes. Errors are the source's.
absl::Status ReadFrom(const TensorSource& source, uint64_t offset, MutableBytes out);

// Fills `out` with the elements of `region` in C order, and says which blob they are. What has come
// is hashed piece by piece, while the processor has it near: hashing a tile when it is whole would
// fetch all of it from memory again. INVALID_ARGUMENT: an edge lies inside a byte; else errors are
// the source's.
absl::StatusOr<ObjectRef> ReadHashedRegion(const TensorSource& source, const Region& region,
                                           MutableBytes out, WriteCost& cost);

}  // namespace tilekv
