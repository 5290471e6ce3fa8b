// Contents above the object limit, as pieces and the trees over them: docs/formats.md, "Chunked
// blob". Storing is the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/tree.h"

namespace tilekv {

// A run of the content: a piece, which is a blob, or a tree of level 1, whose content is longer
// than itself.
struct BlobChunk {
  ObjectRef ref;
  uint64_t content_bytes = 0;
};

// One tree, decoded.
struct ChunkedBlob {
  uint64_t content_bytes = 0;     // of all chunks
  std::vector<BlobChunk> chunks;  // in order: all pieces, or all trees of level 1
};

// Bytes of each piece but the last in a store with this limit.
uint64_t ChunkBytes(uint64_t max_object_bytes);
// The greatest number of chunks in a tree of level 1 or 2.
uint64_t MaxChunks(uint8_t level, uint64_t max_object_bytes);

// The tree over chunks: of level 1 over pieces, of level 2 over trees of level 1. At most
// kMaxChildren (checked).
Tree EncodeChunkedBlob(uint8_t level, std::span<const BlobChunk> chunks);
// An error of this reason that says what is wrong: not a chunked blob, or lengths that do not add
// up. Lengths below a tree of level 2 are as it says: compare with each child when it is read.
absl::StatusOr<ChunkedBlob> DecodeChunkedBlob(const Tree& tree, Reason reason);
// The same from an object's content; `level` is the ref's.
absl::StatusOr<ChunkedBlob> DecodeChunkedBlob(uint8_t level, Bytes content, Reason reason);

// Makes the trees as pieces come, each after its children; holds the references of one tree of
// level 1 and of all such trees. For one thread.
class ChunkedBlobBuilder {
 public:
  // Stores a tree; an error of its ends the build. Called only within Add and Finish.
  using PutTree = std::function<absl::Status(const ObjectRef& ref, std::string content)>;

  ChunkedBlobBuilder(uint64_t max_object_bytes, PutTree put_tree);
  // The next piece, which is stored already. OBJECT_TOO_LARGE where two levels of trees within the
  // limit do not hold it.
  absl::Status Add(const ObjectRef& piece);
  // The tree of the whole content, also of an empty one. Call once, at the end.
  absl::StatusOr<BlobChunk> Finish();

 private:
  absl::StatusOr<BlobChunk> Put(uint8_t level, std::span<const BlobChunk> chunks);
  absl::Status CloseTree();

  const uint64_t max_object_bytes_;
  const PutTree put_tree_;
  std::vector<BlobChunk> pieces_;  // of the tree of level 1 that is being filled
  std::vector<BlobChunk> trees_;
};

}  // namespace tilekv
