#include "tensor_chunking/write_session.h"

#include "kvstore/object/object_hash.h"

namespace tilekv {

absl::StatusOr<ObjectRef> WriteSession::PutBlob(const Blob& blob) {
  Piece piece{RefOf(0, blob.content), blob, codec_};
  TILEKV_RETURN_IF_ERROR(PutMissing({&piece, 1}));
  return piece.ref;
}

absl::StatusOr<std::vector<ObjectRef>> WriteSession::PutBlobs(std::span<const Blob> blobs) {
  std::vector<Piece> pieces;
  std::vector<ObjectRef> refs;
  for (const Blob& blob : blobs) {
    pieces.push_back({RefOf(0, blob.content), blob, codec_});
    refs.push_back(pieces.back().ref);
  }
  TILEKV_RETURN_IF_ERROR(PutMissing(pieces));
  return refs;
}

absl::Status WriteSession::PutEncoded(std::span<const EncodedObject> objects) {
  std::vector<Piece> pieces;
  for (const EncodedObject& object : objects) {
    pieces.push_back({object.ref, {AsBytes(object.content)}, Codec::kNone});
  }
  return PutMissing(pieces);
}

absl::Status WriteSession::PutMissing(std::span<const Piece> pieces) {
  if (pieces.empty()) return absl::OkStatus();
  std::vector<ObjectRef> refs;
  for (const Piece& piece : pieces) refs.push_back(piece.ref);
  TILEKV_ASSIGN_OR_RETURN(std::vector<bool> present, session_.Link(refs, context_));
  WriteCounts counts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    bool stored = false;
    if (!present[i]) {
      const Blob& blob = piece.blob;
      Encoding encoding = ChooseEncoding(piece.codec, blob.float_bytes, blob.content);
      TILEKV_ASSIGN_OR_RETURN(stored, session_.Put(piece.ref, blob.content, encoding, context_));
    }
    (stored ? counts.new_objects : counts.shared_objects) += 1;
    (stored ? counts.new_bytes : counts.shared_bytes) += piece.ref.length;
  }
  MutexLock lock(mutex_);
  counts_.new_objects += counts.new_objects;
  counts_.new_bytes += counts.new_bytes;
  counts_.shared_objects += counts.shared_objects;
  counts_.shared_bytes += counts.shared_bytes;
  return absl::OkStatus();
}

WriteCounts WriteSession::counts() {
  MutexLock lock(mutex_);
  return counts_;
}

}  // namespace tilekv
