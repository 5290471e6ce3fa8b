#include "server/exchange_reactor.h"

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "server/small_receiver.h"

namespace tilekv {
namespace {

// It is held while its call waits for a place.
absl::Status CheckFirstMessage(uint64_t data_bytes) {
  if (data_bytes <= kSmallValueBytes) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("the first message of a put brings {} of data; it may bring {}, "
                               "the others more",
                               FormatSize(data_bytes), FormatSize(kSmallValueBytes)));
}

}  // namespace

void ExchangeReactor::OnFirstMessage(bool ok) {
  if (!ok) return EndCall(MakeError(Reason::kInvalidArgument, "the stream has no message"));
  std::vector<Bytes> first = PiecesOf(incoming_, slices_);
  absl::StatusOr<Opened> opened = Open(first);
  if (!opened.ok()) return EndCall(opened.status());
  absl::Status status = CheckFirstMessage(opened->data_bytes);
  if (!status.ok()) return EndCall(status);
  if (opened->is_small) {
    auto receiver =
        std::make_shared<SmallReceiver>(this, std::move(opened->sink), &streams_.executor);
    if (SetReceiver(receiver)) receiver->Received(first);
  } else {
    first_is_here_ = true;
    ServeTransfer(std::move(opened->sink));
  }
}

void ExchangeReactor::AskForMessage() {
  if (!std::exchange(first_is_here_, false)) return ReceivingReactor::AskForMessage();
  // Not at once: whoever asks holds a lock.
  streams_.executor.Post(
      [self = shared_from_this(), this] { receiver()->Received(PiecesOf(incoming_, slices_)); });
}

void ExchangeReactor::Reply(const google::protobuf::MessageLite& response, bool last) {
  MutexLock lock(replies_mutex_);
  replies_.push_back(ToBuffer(response));
  if (!last) GoOn();
}

void ExchangeReactor::ReplyIfIdle(const google::protobuf::MessageLite& response) {
  MutexLock lock(replies_mutex_);
  if (writing_ || over_ || end_.has_value() || !replies_.empty()) return;
  replies_.push_back(ToBuffer(response));
  GoOn();
}

// Once the call has ended gRPC may let go of the reactor at any moment, though its lock is held:
// whoever may end it keeps it until the lock is given back.
void ExchangeReactor::EndCall(const absl::Status& status) {
  const auto self = shared_from_this();
  MutexLock lock(replies_mutex_);
  EndLocked(status);
}

void ExchangeReactor::EndLocked(const absl::Status& status) {
  over_ = true;
  if (TakeEnd()) Finish(served_.End(status));
}

void ExchangeReactor::FinishCall(const absl::Status& status) {
  const auto self = shared_from_this();
  MutexLock lock(replies_mutex_);
  end_ = status;
  GoOn();
}

void ExchangeReactor::OnWriteDone(bool ok) {
  const auto self = shared_from_this();
  MutexLock lock(replies_mutex_);
  writing_ = false;
  if (!ok) replies_.clear();
  GoOn();
}

void ExchangeReactor::GoOn() {
  if (writing_ || over_) return;
  if (replies_.empty()) {
    if (end_.has_value()) EndLocked(*end_);
    return;
  }
  outgoing_ = replies_.front();
  replies_.erase(replies_.begin());
  if (replies_.empty() && end_.has_value() && end_->ok()) {
    over_ = true;
    if (TakeEnd()) StartWriteAndFinish(&outgoing_, grpc::WriteOptions(), served_.End(*end_));
    return;
  }
  writing_ = true;
  StartWrite(&outgoing_);
}

}  // namespace tilekv
