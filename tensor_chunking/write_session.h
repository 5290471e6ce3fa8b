// Objects on their way into a store: hashed, linked where they are there already, sent where they
// are not. One for each pass of a write. Thread-safe; the session must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvstore/base/mutex.h"
#include "kvstore/kv_store.h"
#include "kvstore/object/codec_choice.h"
#include "tensor_chunking/stored_content.h"
#include "tensor_chunking/write_cost.h"

namespace tilekv {

struct WriteCounts {
  uint64_t new_objects = 0;
  uint64_t new_bytes = 0;
  uint64_t shared_objects = 0;
  uint64_t shared_bytes = 0;
  WriteCost cost;
};

class WriteSession {
 public:
  WriteSession(UploadSession& session, Codec codec, const CallContext& context)
      : session_(session), codec_(codec), context_(context) {}

  struct Blob {
    Bytes content;
    // Width of the floating-point elements that all of it consists of; 0: it does not; none: its
    // bytes will tell.
    std::optional<uint8_t> float_bytes = 0;
    // What names it, where it has been hashed already.
    std::optional<ObjectRef> ref = std::nullopt;
  };
  // One blob; gives what names it.
  absl::StatusOr<ObjectRef> PutBlob(const Blob& blob);
  // Several blobs with one question; refs in order.
  absl::StatusOr<std::vector<ObjectRef>> PutBlobs(std::span<const Blob> blobs);
  // Trees and small blobs that have been hashed already. Children come before their parents.
  absl::Status PutEncoded(std::span<const EncodedObject> objects);

  // What a pass spends beside this session.
  void AddCost(const WriteCost& cost);
  WriteCounts counts();
  UploadSession& session() { return session_; }

 private:
  struct Piece {
    ObjectRef ref;
    Blob blob;
    Codec codec;
  };
  // `cost` is what the pieces have cost so far.
  absl::Status PutMissing(std::span<const Piece> pieces, WriteCost cost);

  UploadSession& session_;
  const Codec codec_;
  const CallContext context_;
  Mutex mutex_;
  WriteCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
