#include "tensor_chunking/write_session.h"

#include <algorithm>

#include "kvstore/object/object_hash.h"

namespace tilekv {

absl::StatusOr<ObjectRef> WriteSession::PutBlob(const Blob& blob) {
  TILEKV_ASSIGN_OR_RETURN(std::vector<ObjectRef> refs, PutBlobs({&blob, 1}));
  return refs[0];
}

absl::StatusOr<std::vector<ObjectRef>> WriteSession::PutBlobs(std::span<const Blob> blobs) {
  std::vector<Piece> pieces;
  std::vector<ObjectRef> refs;
  WriteCost cost;
  {
    TimedScope hashing(&cost.hash_nanos);
    for (const Blob& blob : blobs) {
      pieces.push_back({blob.ref.has_value() ? *blob.ref : RefOf(0, blob.content), blob, codec_});
      refs.push_back(pieces.back().ref);
    }
  }
  TILEKV_RETURN_IF_ERROR(PutMissing(pieces, cost));
  return refs;
}

absl::Status WriteSession::PutEncoded(std::span<const EncodedObject> objects) {
  std::vector<Piece> pieces;
  for (const EncodedObject& object : objects) {
    pieces.push_back({object.ref, {AsBytes(object.content)}, Codec::kNone});
  }
  return PutMissing(pieces, {});
}

absl::Status WriteSession::PutMissing(std::span<const Piece> pieces, WriteCost cost) {
  if (pieces.empty()) return absl::OkStatus();
  std::vector<ObjectRef> refs;
  for (const Piece& piece : pieces) refs.push_back(piece.ref);
  const int64_t asked_nanos = TimedScope::NowNanos();
  TILEKV_ASSIGN_OR_RETURN(std::vector<bool> present, session_.Link(refs, context_));
  int64_t last_nanos = TimedScope::NowNanos();
  cost.link_nanos += last_nanos - asked_nanos;
  WriteCounts counts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    bool stored = false;
    if (!present[i]) {
      const Blob& blob = piece.blob;
      Encoding encoding = ChooseEncoding(piece.codec, blob.float_bytes, blob.content);
      const int64_t chosen_nanos = TimedScope::NowNanos();
      cost.put.encode_nanos += chosen_nanos - last_nanos;
      const int64_t apart_nanos = cost.put.encode_nanos + cost.put.retry_nanos;
      TILEKV_ASSIGN_OR_RETURN(stored,
                              session_.Put(piece.ref, blob.content, encoding, context_, &cost.put));
      last_nanos = TimedScope::NowNanos();
      const int64_t put_nanos = last_nanos - chosen_nanos;
      cost.put_nanos += put_nanos - (cost.put.encode_nanos + cost.put.retry_nanos - apart_nanos);
      cost.slowest_put_nanos = std::max(cost.slowest_put_nanos, put_nanos);
    }
    (stored ? counts.new_objects : counts.shared_objects) += 1;
    (stored ? counts.new_bytes : counts.shared_bytes) += piece.ref.length;
  }
  MutexLock lock(mutex_);
  counts_.new_objects += counts.new_objects;
  counts_.new_bytes += counts.new_bytes;
  counts_.shared_objects += counts.shared_objects;
  counts_.shared_bytes += counts.shared_bytes;
  counts_.cost.Add(cost);
  return absl::OkStatus();
}

void WriteSession::AddCost(const WriteCost& cost) {
  MutexLock lock(mutex_);
  counts_.cost.Add(cost);
}

WriteCounts WriteSession::counts() {
  MutexLock lock(mutex_);
  return counts_;
}

}  // namespace tilekv
