#include "server/peer_copy_writer.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/grpc/grpc_call.h"
#include "kvstore/wire/bulk_frame.h"
#include "kvstore/wire/object_messages.h"
#include "server/grpc_peer.h"

namespace tilekv {
namespace {

constexpr char kMethod[] = "/tilekv.v1.Peer/PutCopy";
// What one copy may have on its way, where the budget has it.
constexpr uint64_t kMostAheadBytes = 4 * kTransferChunkBytes;

// What gRPC keeps as long as it has a slice. The reservation goes before its budget.
struct Lent {
  std::shared_ptr<const void> owner;
  std::shared_ptr<ByteBudget> budget;
  Reservation reservation;
};

void GiveBack(void* lent) { delete static_cast<Lent*>(lent); }

// gRPC does not write through a slice that it sends.
grpc::Slice Lend(Bytes bytes, std::unique_ptr<Lent> lent) {
  return grpc::Slice(const_cast<uint8_t*>(bytes.data()), bytes.size(), &GiveBack, lent.release());
}

// The call: one thread puts messages into a queue, gRPC's threads send them, and hear the answers.
class CopyCall : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  CopyCall(grpc::GenericStub& stub, const CallContext& context) : watch_(&call_) {
    SetDeadline(context, call_);
    watch_.SetStallTimeout(kCopyStall_ms);
    call_.set_initial_metadata_corked(true);  // it goes with the first message
    stub.PrepareBidiStreamingCall(&call_, kMethod, grpc::StubOptions(), this);
    AddHold();  // messages come from outside of gRPC's threads
    StartRead(&incoming_);
    StartCall();
  }

  // Takes the message once so little waits that with it there are `ahead_bytes`, or nothing does.
  // False: the node wants no more, or nothing moves.
  bool Send(const grpc::ByteBuffer& message, bool last, uint64_t ahead_bytes,
            const CallContext& context) {
    const uint64_t bytes = message.Length();
    bool taken = watch_.WaitUntil(context, [&] {
      return over_ || waiting_bytes_ == 0 || waiting_bytes_ + bytes <= ahead_bytes;
    });
    bool start = false;
    watch_.Update([&] {
      taken = taken && !over_;
      if (!taken) return;
      queue_.push_back({message, last});
      waiting_bytes_ += bytes;
      start = TakeNext();
    });
    if (start) StartNext();
    return taken;
  }
  void Cancel() { call_.TryCancel(); }
  // The end of the call; nothing is sent afterwards.
  grpc::Status Wait(const CallContext& context) {
    RemoveHold();
    return watch_.Wait(context);
  }

  // After Wait.
  bool stalled() { return watch_.stalled(); }
  const grpc::ClientContext& call() const { return call_; }
  const std::optional<v1::CopyStored>& answer() const { return answer_; }

 private:
  struct Message {
    grpc::ByteBuffer buffer;
    bool last = false;
  };

  // Under the watch's lock, as everything that Send waits for. True: StartNext is to be called.
  bool TakeNext() {
    if (writing_ || over_ || queue_.empty()) return false;
    writing_ = true;
    outgoing_ = std::move(queue_.front());
    queue_.pop_front();
    return true;
  }
  void StartNext() {
    if (outgoing_.last) {
      StartWriteLast(&outgoing_.buffer, grpc::WriteOptions());
    } else {
      StartWrite(&outgoing_.buffer);
    }
  }
  void OnWriteDone(bool ok) override {
    bool start = false;
    watch_.Update([&] {
      writing_ = false;
      waiting_bytes_ -= outgoing_.buffer.Length();
      outgoing_.buffer.Clear();
      over_ = over_ || !ok;
      start = TakeNext();
    });
    if (start) StartNext();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    std::vector<grpc::Slice> slices;
    std::string text;
    for (Bytes piece : PiecesOf(incoming_, slices)) text += AsText(piece);
    v1::PutCopyResponse response;
    const bool answered = response.ParseFromString(text) && response.has_answer();
    watch_.Update([&] {
      if (!answered) return;
      answer_ = response.answer();
      over_ = true;
    });
    StartRead(&incoming_);
  }
  void OnDone(const grpc::Status& status) override { watch_.Done(status); }

  grpc::ClientContext call_;
  grpc::ByteBuffer incoming_;
  Message outgoing_;  // of whoever took it
  std::deque<Message> queue_;
  uint64_t waiting_bytes_ = 0;  // queued, and being sent
  bool writing_ = false;
  bool over_ = false;  // answered or broken: nothing more is sent
  std::optional<v1::CopyStored> answer_;
  CallWatch watch_;
};

class PeerCopyWriter final : public CopyWriter {
 public:
  PeerCopyWriter(std::shared_ptr<GrpcPeer> peer, const PutSpec& spec, const CallContext& context)
      : peer_(std::move(peer)),
        ref_(*spec.expected),
        coded_(spec.encoding.kind != EncodingKind::kNone),
        context_(context),
        call_(std::make_unique<CopyCall>(peer_->NextBulk(), context)) {
    *header_.mutable_peer() = peer_->Header();
    header_.set_domain(spec.domain);
    header_.set_touched_rev(spec.touched_rev.value);
    ObjectRefToWire(ref_, header_.mutable_ref());
    EncodingToWire(spec.encoding, header_.mutable_encoding());
    // The header of a large one goes alone: where the object is there already, or refused, it costs
    // no data. That of a small one goes with its data.
    if (ref_.length == 0 || ref_.length > kSmallValueBytes) SendMessage({}, {}, nullptr);
  }
  ~PeerCopyWriter() override {
    if (call_ == nullptr) return;
    call_->Cancel();
    call_->Wait({});
  }

  absl::Status Append(SharedBytes stored, std::span<const uint32_t> table) override {
    Bytes rest = stored.bytes;
    while (!rest.empty() && status_.ok() && call_ != nullptr) {
      if (IsWhole()) return Fail("more came than the object has");
      uint64_t length = std::min<uint64_t>(rest.size(), kTransferChunkBytes);
      size_t blocks = 0;
      if (coded_) {
        length = 0;
        while (blocks < table.size()) {
          uint64_t block = table[blocks] & ~kRawBlockBit;
          if (length + block > kTransferChunkBytes || length + block > rest.size()) break;
          length += block;
          ++blocks;
        }
        if (length == 0) return Fail("coded blocks came that are not those of their table");
      }
      SendMessage(rest.first(length), table.first(blocks), stored.owner);
      rest = rest.subspan(length);
      table = table.subspan(blocks);
    }
    return status_;
  }

  absl::StatusOr<CopyAnswer> Finish() override {
    TILEKV_RETURN_IF_ERROR(status_);
    if (call_ != nullptr && !IsWhole()) return Fail("it ended before all of the object had come");
    if (call_ != nullptr) End();
    TILEKV_RETURN_IF_ERROR(status_);
    return answer_;
  }

 private:
  // Everything was sent.
  bool IsWhole() const {
    return coded_ ? blocks_ >= BlockCount(ref_.length) : bytes_ >= ref_.length;
  }

  void SendMessage(Bytes data, std::span<const uint32_t> table, std::shared_ptr<const void> owner) {
    v1::PutCopyRequest fields;
    if (!std::exchange(begun_, true)) *fields.mutable_header() = header_;
    fields.mutable_block_table()->Assign(table.begin(), table.end());
    bytes_ += data.size();
    blocks_ += table.size();
    grpc::Slice slices[2] = {grpc::Slice(EncodeBulkHead(fields, data.size())), grpc::Slice()};
    bool ahead = false;
    if (!data.empty()) {
      auto lent = std::make_unique<Lent>();
      lent->owner = std::move(owner);
      lent->budget = peer_->caller().copy_ahead;
      if (auto reservation = lent->budget->TryAcquire(data.size()); reservation.has_value()) {
        lent->reservation = *std::move(reservation);
        ahead = true;
      }
      slices[1] = Lend(data, std::move(lent));
    }
    grpc::ByteBuffer message(slices, data.empty() ? 1 : 2);
    if (!call_->Send(message, IsWhole(), ahead ? kMostAheadBytes : 0, context_)) End();
  }

  absl::Status Fail(const char* what) {
    status_ = MakeError(Reason::kInvalidArgument,
                        fmt::format("a copy of object {}: {}", ref_.id.Short(), what));
    return status_;
  }

  // Takes the answer, or why there is none.
  void End() {
    grpc::Status ended = call_->Wait(context_);
    if (call_->stalled()) {
      status_ = Stalled(fmt::format("node {} took nothing of a copy of object {} for {} ms",
                                    peer_->name(), ref_.id.Short(), kCopyStall_ms));
    } else {
      status_ = FromGrpc(ended, call_->call(), context_, peer_->name());
    }
    if (status_.ok() && !call_->answer().has_value()) {
      status_ = MakeError(Reason::kInternal,
                          fmt::format("node {} took a copy of object {} without an answer",
                                      peer_->name(), ref_.id.Short()));
    }
    if (status_.ok()) {
      const v1::CopyStored& answer = *call_->answer();
      answer_ = {.store_uuid = answer.store_uuid(),
                 .touched_rev = Revision{answer.touched_rev()},
                 .stored = answer.stored()};
    }
    status_ = peer_->Ended(status_);
    call_.reset();
  }

  const std::shared_ptr<GrpcPeer> peer_;
  const ObjectRef ref_;
  const bool coded_;
  const CallContext context_;
  v1::PutCopyHeader header_;
  bool begun_ = false;
  // Of what was sent.
  uint64_t bytes_ = 0;
  uint64_t blocks_ = 0;
  absl::Status status_;
  CopyAnswer answer_;               // once the call is over, and well
  std::unique_ptr<CopyCall> call_;  // null once it is over
};

}  // namespace

absl::StatusOr<std::unique_ptr<CopyWriter>> NewPeerCopy(std::shared_ptr<GrpcPeer> peer,
                                                        const PutSpec& spec,
                                                        const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  if (!spec.expected.has_value()) {
    return MakeError(Reason::kInvalidArgument, "a copy of an object that is not named");
  }
  return std::make_unique<PeerCopyWriter>(std::move(peer), spec, context);
}

}  // namespace tilekv
