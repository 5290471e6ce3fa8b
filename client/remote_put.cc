#include <algorithm>
#include <memory>
#include <optional>

#include "client/remote_channels.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/encoding.h"
#include "kvstore/wire/bulk_frame.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr char kMethod[] = "/tilekv.v1.Node/PutObject";

// How many slices of the caller's memory gRPC still has. Thread-safe.
class Borrowed {
 public:
  grpc::Slice Lend(Bytes bytes) {
    {
      MutexLock lock(mutex_);
      ++count_;
    }
    // gRPC does not write through a slice that it sends.
    return grpc::Slice(const_cast<uint8_t*>(bytes.data()), bytes.size(), &GiveBack, this);
  }
  void WaitForAll() {
    MutexLock lock(mutex_);
    while (count_ > 0) none_.Wait(mutex_);
  }

 private:
  static void GiveBack(void* self) {
    auto* borrowed = static_cast<Borrowed*>(self);
    MutexLock lock(borrowed->mutex_);
    if (--borrowed->count_ == 0) borrowed->none_.SignalAll();
  }

  Mutex mutex_;
  CondVar none_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Sends stored bytes in messages of whole blocks, or of any part where they are not coded.
class PutReactor : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  PutReactor(RemoteChannels& channels, Bytes stored, std::span<const uint32_t> table)
      : channels_(channels),
        rest_(stored),
        table_(table),
        call_(std::make_unique<grpc::ClientContext>()),
        watch_(call_.get()) {}

  absl::Status Run(const v1::PutObjectHeader& header, const CallContext& context) {
    SetDeadline(context, *call_);
    watch_.SetStallTimeout(channels_.options().progress_timeout_ms);
    channels_.NextBulk().PrepareBidiStreamingCall(call_.get(), kMethod, grpc::StubOptions(), this);
    // The header goes alone: an object that is there already, or refused, costs no data.
    v1::PutObjectRequest first;
    *first.mutable_header() = header;
    Send(first, {});
    StartRead(&response_);
    StartCall();
    grpc::Status ended = watch_.Wait(context);
    absl::Status status = FromGrpc(ended, *call_, context, channels_.address());
    // A message that was not sent to its end stays with the call until that goes.
    request_.Clear();
    call_.reset();
    borrowed_.WaitForAll();
    return status;
  }

  // After Run.
  bool stalled() { return watch_.stalled(); }
  uint64_t sent_bytes() const { return sent_bytes_; }
  const std::optional<v1::PutObjectResponse>& answer() const { return answer_; }

 private:
  void Send(const v1::PutObjectRequest& fields, Bytes data) {
    std::string head = EncodeBulkHead(fields, data.size());
    grpc::Slice slices[2] = {grpc::Slice(head), grpc::Slice()};
    if (!data.empty()) slices[1] = borrowed_.Lend(data);
    request_ = grpc::ByteBuffer(slices, data.empty() ? 1 : 2);
    if (rest_.empty()) {
      watch_.SetStallTimeout(channels_.options().sync_timeout_ms);
      StartWriteLast(&request_, grpc::WriteOptions());
    } else {
      StartWrite(&request_);
    }
  }

  void SendNext() {
    v1::PutObjectRequest fields;
    uint64_t length = std::min<uint64_t>(rest_.size(), kTransferChunkBytes);
    if (!table_.empty()) {
      length = 0;
      while (!table_.empty()) {
        uint64_t block = table_.front() & ~kRawBlockBit;
        if (length + block > kTransferChunkBytes) break;
        fields.add_block_table(table_.front());
        length += block;
        table_ = table_.subspan(1);
      }
    }
    Bytes data = rest_.first(length);
    rest_ = rest_.subspan(length);
    sent_bytes_ += length;
    Send(fields, data);
  }

  // False: the node has answered already, or the call broke; OnDone tells.
  void OnWriteDone(bool ok) override {
    if (!ok) return;
    watch_.Progress();
    if (!rest_.empty()) SendNext();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    std::vector<grpc::Slice> slices;
    std::string text;
    for (Bytes piece : PiecesOf(response_, slices)) text += AsText(piece);
    v1::PutObjectResponse answer;
    if (answer.ParseFromString(text)) answer_ = std::move(answer);
  }
  void OnDone(const grpc::Status& status) override { watch_.Done(status); }

  RemoteChannels& channels_;
  Bytes rest_;
  uint64_t sent_bytes_ = 0;
  std::span<const uint32_t> table_;
  std::unique_ptr<grpc::ClientContext> call_;
  Borrowed borrowed_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  std::optional<v1::PutObjectResponse> answer_;
  CallWatch watch_;
};

}  // namespace

absl::StatusOr<bool> RemotePutObject(RemoteChannels& channels, const ObjectPut& put,
                                     const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  CodedContent coded;
  if (put.encoding.kind != EncodingKind::kNone) {
    TimedScope timed(put.stats == nullptr ? nullptr : &put.stats->encode_nanos);
    TILEKV_ASSIGN_OR_RETURN(coded, EncodeContent(put.encoding, put.content));
  }
  bool raw = coded.encoding.kind == EncodingKind::kNone;
  v1::PutObjectHeader header;
  header.set_domain(put.domain);
  header.set_session_rev(put.session_rev.value);
  ObjectRefToWire(put.ref, header.mutable_ref());
  EncodingToWire(coded.encoding, header.mutable_encoding());
  PutReactor reactor(channels, raw ? put.content : AsBytes(coded.stored), coded.table);
  absl::Status status = reactor.Run(header, context);
  if (put.stats != nullptr) put.stats->sent_bytes += reactor.sent_bytes();
  if (reactor.stalled()) {
    return Stalled(fmt::format("node {} took nothing of object {} for too long", channels.address(),
                               put.ref.id.Short()));
  }
  TILEKV_RETURN_IF_ERROR(status);
  if (!reactor.answer().has_value()) {
    return MakeError(Reason::kInternal, fmt::format("node {} took object {} without an answer",
                                                    channels.address(), put.ref.id.Short()));
  }
  return reactor.answer()->stored();
}

}  // namespace tilekv
