// Contents that may be larger than one object: a blob, or a chunked blob, a tree whose children in
// order are the content (docs/formats.md, section 8). Pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_id.h"
#include "kvstore/object/tree.h"

namespace tilekv {

// An object as it is put: its name, level and length, and its bytes.
struct EncodedObject {
  ObjectRef ref;
  std::string content;
};
EncodedObject EncodeTreeObject(const Tree& tree);
EncodedObject EncodeBlobObject(std::string content);

// A content of any length: `ref` is a blob of this length, or a chunked blob.
struct StoredContent {
  ObjectRef ref;
  uint64_t length_bytes = 0;

  friend bool operator==(const StoredContent&, const StoredContent&) = default;
};

// An error with `reason` unless `content` is a blob of its length, or of a chunked blob's level.
absl::Status CheckStoredContent(const StoredContent& content, Reason reason);

// Pieces of a content longer than the object limit are this long, but for the last one.
uint64_t ChunkBytes(uint64_t max_object_bytes);

// The trees over the pieces of a content, children before parents, the whole's last. Pieces are
// blobs in order. OBJECT_TOO_LARGE where two levels of trees within the limit do not hold them.
absl::StatusOr<std::vector<EncodedObject>> EncodeChunkedBlob(std::span<const ObjectRef> pieces,
                                                             uint64_t max_object_bytes);
// A content that is in memory: appends what must be put, children before parents. One blob where
// that is within the limit.
absl::StatusOr<StoredContent> EncodeInMemory(std::string_view content, uint64_t max_object_bytes,
                                             std::vector<EncodedObject>& out);

// One tree of a chunked blob, decoded.
struct ChunkedBlobNode {
  uint64_t length_bytes = 0;            // of the content below it
  std::vector<ObjectRef> children;      // blobs, or level 1 nodes
  std::vector<uint64_t> child_lengths;  // bytes of the content below each
};
// `level` is the ref's. DATA_LOSS says what is wrong. The lengths below a level 2 node are as it
// says: compare each child's length_bytes when it is read.
absl::StatusOr<ChunkedBlobNode> DecodeChunkedBlob(uint8_t level, Bytes content);

}  // namespace tilekv
