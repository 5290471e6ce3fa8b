// A plain value above the object limit, as pieces and trees: docs/formats.md, "Chunked blob". Pure
// functions; storing is the caller's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/object/tree.h"

namespace tilekv {

// A run of a chunked value: a blob, or a tree of level 1 whose content is longer than itself.
struct ValueChunk {
  ObjectRef ref;
  uint64_t content_bytes = 0;
};

// One tree of a chunked value.
struct ValueChunks {
  uint64_t content_bytes = 0;      // of the whole value
  std::vector<ValueChunk> chunks;  // in order: all blobs, or all trees of level 1
};

// Bytes of one piece in a store with this limit.
uint64_t ValueChunkBytes(uint64_t max_object_bytes);
// The tree over chunks: of level 1 over blobs, of level 2 over trees of level 1. There are at most
// MaxValueChunks of that level (checked).
Tree EncodeValueChunks(uint8_t level, std::span<const ValueChunk> chunks);
uint64_t MaxValueChunks(uint8_t level, uint64_t max_object_bytes);
// INVALID_ARGUMENT: not a chunked blob, or lengths that do not add up.
absl::StatusOr<ValueChunks> DecodeValueChunks(const Tree& tree);

}  // namespace tilekv
