// Contents that may be larger than one object, as manifests name them: a blob, or a chunked blob
// (kvstore/object/chunked_blob.h); and objects on their way to the store. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
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

// A content that is in memory: appends what must be put, children before parents. One blob where
// it is no longer than a piece.
absl::StatusOr<StoredContent> EncodeInMemory(std::string_view content, uint64_t max_object_bytes,
                                             std::vector<EncodedObject>& out);

}  // namespace tilekv
