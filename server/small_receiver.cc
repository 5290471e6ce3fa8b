#include "server/small_receiver.h"

#include <utility>

#include "kvstore/base/status.h"

namespace tilekv {

SmallReceiver::SmallReceiver(BulkCarrier* carrier, std::unique_ptr<BulkSink> sink,
                             Executor* executor)
    : carrier_(carrier), executor_(executor), sink_(std::move(sink)) {}

// A sink that was given up may have files to remove: never in the carrier's threads.
SmallReceiver::~SmallReceiver() {
  if (sink_ == nullptr) return;
  executor_->Post([sink = std::shared_ptr<BulkSink>(std::move(sink_))]() mutable { sink.reset(); });
}

void SmallReceiver::Received(std::span<const Bytes> pieces) {
  absl::StatusOr<IncomingMessage> message = sink_->Decode(pieces);
  if (!message.ok()) return Fail(message.status());
  incoming_ = *std::move(message);
  Post(incoming_.last);
}

void SmallReceiver::Ended() {
  incoming_ = IncomingMessage();
  Post(true);
}

void SmallReceiver::Post(bool complete) {
  {
    MutexLock lock(mutex_);
    if (finished_) return;
    ended_ = complete;
    working_ = true;
  }
  executor_->Post([self = shared_from_this()] { self->Work(); });
}

void SmallReceiver::Work() {
  bool over = false;
  absl::Status status = WorkOnMessage(over);
  if (ended_) sink_.reset();
  MutexLock lock(mutex_);
  working_ = false;
  if (!error_.ok() && !over) status = error_;
  if (over || !status.ok()) return FinishLocked(status);
  carrier_->AskForMessage();
}

absl::Status SmallReceiver::WorkOnMessage(bool& over) {
  if (!std::exchange(begun_, true)) {
    TILEKV_ASSIGN_OR_RETURN(bool wanted, sink_->Begin());
    if (!wanted) {
      over = true;
      return absl::OkStatus();
    }
  }
  for (Bytes data : incoming_.data) TILEKV_RETURN_IF_ERROR(sink_->Append(data, {}));
  if (!ended_) return absl::OkStatus();
  over = true;
  return sink_->End(incoming_.last);
}

void SmallReceiver::Fail(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (error_.ok()) error_ = status;
  if (!working_) FinishLocked(status);
}

void SmallReceiver::Cancel() { Fail(MakeError(Reason::kCancelled, "the caller is gone")); }

void SmallReceiver::FinishLocked(const absl::Status& status) {
  if (std::exchange(finished_, true)) return;
  carrier_->FinishCall(status);
}

}  // namespace tilekv
