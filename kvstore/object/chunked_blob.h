// Content above the object limit, as pieces and trees: docs/formats.md, "Chunked blob". Pure
// functions; storing is the caller's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/object/tree.h"

namespace tilekv {

struct ChunkedBlob {
  uint64_t length = 0;              // of the whole value
  std::vector<ObjectRef> children;  // in order: blobs, or chunked blobs of level 1
};

// Bytes of one piece in a store with this limit.
uint64_t ChunkBytes(uint64_t max_object_bytes);
// Children that one tree can have.
uint64_t MaxChunkedChildren(uint64_t max_object_bytes);

struct ChunkedTrees {
  std::vector<Tree> leaves;  // of level 1; where there is more than one, `root` lists them in order
  bool two_levels = false;
};
// Groups the pieces of a value into trees of level 1, as many as it takes.
ChunkedTrees GroupChunks(std::span<const ObjectRef> pieces, uint64_t max_object_bytes);
// The tree of level 2 over the trees of level 1, which have been hashed to `leaves`.
// OBJECT_TOO_LARGE when there are more than one tree can list.
absl::StatusOr<Tree> ChunkedRoot(std::span<const ObjectRef> leaves, uint64_t length,
                                 uint64_t max_object_bytes);

// INVALID_ARGUMENT: not a chunked blob, or lengths that do not add up.
absl::StatusOr<ChunkedBlob> ParseChunkedBlob(const Tree& tree);

}  // namespace tilekv
