#include "server/read_pipeline.h"

#include <utility>

#include "kvstore/base/clock.h"
#include "kvstore/base/status.h"

namespace tilekv {

// A source that was given up may have files to close, and calls to other nodes to end, which waits
// for the carrier's threads: never in one of them.
ReadPipeline::~ReadPipeline() {
  if (source_ == nullptr) return;
  executor_->Post(
      [source = std::shared_ptr<MessageSource>(std::move(source_))]() mutable { source.reset(); });
}

void ReadPipeline::Start(std::unique_ptr<MessageSource> source) {
  source_ = std::move(source);
  {
    MutexLock lock(mutex_);
    if (source_->done()) return FinishLocked(absl::OkStatus());
  }
  Step();
}

// Begins the next step where there is one to begin: one is read ahead of those being sent.
void ReadPipeline::Step() {
  uint64_t bytes = 0;
  {
    MutexLock lock(mutex_);
    if (stepping_ || finished_ || produced_all_ || !error_.ok() || !ready_.empty()) return;
    if (cancelled_) return EndCancelledLocked();
    stepping_ = true;
    ticket_ = 0;
    bytes = source_->NextBytes();
  }
  Reserve(bytes);
}

void ReadPipeline::Reserve(uint64_t bytes) {
  auto self = shared_from_this();
  const int64_t asked_nanos = Clock::System()->MonotonicNanos();
  uint64_t ticket = budget_->Reserve(bytes, executor_, [self, asked_nanos](Reservation granted) {
    self->Read(std::move(granted), Clock::System()->MonotonicNanos() - asked_nanos);
  });
  bool cancelled = false;
  {
    MutexLock lock(mutex_);
    ticket_ = ticket;
    cancelled = cancelled_;
  }
  if (cancelled) Cancel();
}

void ReadPipeline::Read(Reservation reservation, int64_t waited_nanos) {
  bool wanted = false;
  {
    MutexLock lock(mutex_);
    if (!finished_) carrier_->BudgetWaited(waited_nanos);
    wanted = !cancelled_ && !finished_;
  }
  absl::StatusOr<std::vector<ReadMessage>> messages = std::vector<ReadMessage>();
  if (wanted) messages = source_->Produce(std::move(reservation));
  {
    MutexLock lock(mutex_);
    stepping_ = false;
    if (!wanted) return EndCancelledLocked();
    if (!messages.ok()) {
      error_ = messages.status();
    } else {
      for (ReadMessage& message : *messages) ready_.push_back(std::move(message));
      produced_all_ = source_->done();
    }
    SendLocked();
  }
  Step();
}

// Sends the next message if there is one and none is under way; ends the call after the last.
void ReadPipeline::SendLocked() {
  if (sending_ || finished_) return;
  if (ready_.empty()) {
    if (stepping_) return;
    if (!error_.ok() || produced_all_) FinishLocked(error_);
    return;
  }
  sending_ = true;
  ReadMessage message = std::move(ready_.front());
  ready_.pop_front();
  carrier_->Send(std::move(message), !ready_.empty());
}

void ReadPipeline::Sent(bool ok) {
  {
    MutexLock lock(mutex_);
    sending_ = false;
    if (!ok) {
      cancelled_ = true;
    } else {
      SendLocked();
    }
  }
  if (ok) {
    Step();
  } else {
    Cancel();
  }
}

void ReadPipeline::Cancel() {
  std::deque<ReadMessage> dropped;
  uint64_t ticket = 0;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    dropped.swap(ready_);
    if (!stepping_) return EndCancelledLocked();
    ticket = ticket_;
  }
  // A step that has its memory ends the call itself.
  if (ticket == 0 || !budget_->Cancel(ticket)) return;
  MutexLock lock(mutex_);
  stepping_ = false;
  EndCancelledLocked();
}

void ReadPipeline::BreakOff(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (finished_) return;
  broken_off_ = status;
  carrier_->BreakOff();
}

// A message under way comes back first, as one that could not be sent.
void ReadPipeline::EndCancelledLocked() {
  if (sending_ || stepping_) return;
  FinishLocked(broken_off_.ok() ? MakeError(Reason::kCancelled, "the caller is gone")
                                : broken_off_);
}

void ReadPipeline::FinishLocked(const absl::Status& status) {
  if (std::exchange(finished_, true)) return;
  carrier_->FinishCall(status);
}

}  // namespace tilekv
