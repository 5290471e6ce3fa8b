// Objects on their way into a store: hashed, linked where they are there already, sent where they
// are not. One for each pass of a write. Thread-safe; the session must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvstore/base/mutex.h"
#include "kvstore/kv_store.h"
#include "tensor_chunking/stored_content.h"

namespace tilekv {

struct WriteCounts {
  uint64_t new_objects = 0;
  uint64_t new_bytes = 0;
  uint64_t shared_objects = 0;
  uint64_t shared_bytes = 0;
};

class WriteSession {
 public:
  WriteSession(UploadSession& session, const Encoding& encoding, const CallContext& context)
      : session_(session), encoding_(encoding), context_(context) {}

  // One blob; gives what names it.
  absl::StatusOr<ObjectRef> PutBlob(Bytes content);
  // Several blobs with one question; refs in order.
  absl::StatusOr<std::vector<ObjectRef>> PutBlobs(std::span<const Bytes> contents);
  // Trees and small blobs that have been hashed already. Children come before their parents.
  absl::Status PutEncoded(std::span<const EncodedObject> objects);

  WriteCounts counts();
  UploadSession& session() { return session_; }

 private:
  struct Piece {
    ObjectRef ref;
    Bytes content;
    Encoding encoding;
  };
  absl::Status PutMissing(std::span<const Piece> pieces);

  UploadSession& session_;
  const Encoding encoding_;
  const CallContext context_;
  Mutex mutex_;
  WriteCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
