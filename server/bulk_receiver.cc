#include "server/bulk_receiver.h"

#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/bulk_frame.h"

namespace tilekv {
namespace {

absl::Status CallerGone() { return MakeError(Reason::kCancelled, "the caller is gone"); }

}  // namespace

BulkReceiver::BulkReceiver(BulkCarrier* carrier, std::unique_ptr<BulkSink> sink,
                           StreamBudget* budget, std::shared_ptr<BufferPool> pool,
                           Executor* executor)
    : carrier_(carrier),
      budget_(budget),
      pool_(std::move(pool)),
      executor_(executor),
      sink_(std::move(sink)) {}

// A sink that was given up may have files to remove: never in the carrier's threads.
BulkReceiver::~BulkReceiver() {
  if (sink_ == nullptr) return;
  executor_->Post([sink = std::move(sink_)]() mutable { sink.reset(); });
}

void BulkReceiver::Start() {
  if (auto now = budget_->ReserveAtOnce(kTransferChunkBytes); now.has_value()) {
    return Granted(*std::move(now), 0);
  }
  auto self = shared_from_this();
  const int64_t asked_nanos = Clock::System()->MonotonicNanos();
  uint64_t ticket =
      budget_->Reserve(kTransferChunkBytes, executor_, [self, asked_nanos](Reservation granted) {
        self->Granted(std::move(granted), Clock::System()->MonotonicNanos() - asked_nanos);
      });
  bool cancelled = false;
  {
    MutexLock lock(mutex_);
    ticket_ = ticket;
    cancelled = cancelled_;
  }
  if (cancelled) Cancel();
}

void BulkReceiver::Granted(Reservation reservation, int64_t waited_nanos) {
  MutexLock lock(mutex_);
  if (!finished_) carrier_->BudgetWaited(waited_nanos);
  granted_ = true;
  base_ = std::move(reservation);
  base_free_ = true;
  if (cancelled_) return FinishLocked(CallerGone());
  if (!finished_) carrier_->AskForMessage();
}

void BulkReceiver::Received(std::span<const Bytes> pieces) {
  absl::StatusOr<IncomingMessage> message = sink_->Decode(pieces);
  if (!message.ok()) return Fail(message.status());
  uint64_t bytes = TotalBytes(message->data);
  if (bytes > kTransferChunkBytes) {
    return Fail(MakeError(Reason::kInvalidArgument,
                          fmt::format("a message carries {} bytes of data; at most {} are taken",
                                      bytes, kTransferChunkBytes)));
  }
  incoming_ = *std::move(message);
  {
    MutexLock lock(mutex_);
    if (std::exchange(first_, false)) {
      begin_wanted_ = true;
      KickLocked();
    }
  }
  Place();
}

void BulkReceiver::Ended() { EndInput(false); }

// Puts the message into a chunk and asks for the next one. Where there is no room it stops, and the
// worker goes on from here as soon as it has freed a chunk.
void BulkReceiver::Place() {
  uint64_t bytes = TotalBytes(incoming_.data);
  if (bytes > 0) {
    if (!MakeRoom(bytes, !incoming_.table.empty())) return;
    CopyIncoming();
  }
  if (incoming_.last) return EndInput(true);
  if (!MakeRoom(0, false)) return;
  MutexLock lock(mutex_);
  if (!finished_) carrier_->AskForMessage();
}

// A chunk that takes so many bytes more, and for blocks an empty one; false when it must be waited
// for.
bool BulkReceiver::MakeRoom(uint64_t bytes, bool coded) {
  if (filling_ != nullptr) {
    bool fits = filling_->filled + bytes <= filling_->buffer.size();
    if (fits && (!coded || filling_->filled == 0)) return true;
    Enqueue(std::move(filling_));
  }
  auto chunk = std::make_unique<Chunk>();
  {
    MutexLock lock(mutex_);
    if (base_free_) {
      base_free_ = false;
    } else if (auto extra = budget_->TryReserve(kTransferChunkBytes); extra.has_value()) {
      chunk->extra = *std::move(extra);
    } else {
      waiting_for_room_ = true;  // some chunk is with the worker, since the base is not free
      return false;
    }
  }
  chunk->buffer = pool_->Get(kTransferChunkBytes);
  filling_ = std::move(chunk);
  return true;
}

void BulkReceiver::CopyIncoming() {
  for (Bytes part : incoming_.data) {
    std::memcpy(filling_->buffer.data() + filling_->filled, part.data(), part.size());
    filling_->filled += part.size();
  }
  bool coded = !incoming_.table.empty();
  filling_->table = std::move(incoming_.table);
  incoming_.data.clear();
  incoming_.table.clear();
  if (coded || filling_->filled == filling_->buffer.size()) Enqueue(std::move(filling_));
}

void BulkReceiver::Enqueue(std::unique_ptr<Chunk> chunk) {
  MutexLock lock(mutex_);
  queue_.push_back(std::move(chunk));
  KickLocked();
}

void BulkReceiver::EndInput(bool complete) {
  if (filling_ != nullptr && filling_->filled > 0) Enqueue(std::move(filling_));
  MutexLock lock(mutex_);
  if (finished_) return;
  ended_ = true;
  complete_ = complete;
  KickLocked();
}

void BulkReceiver::KickLocked() {
  if (working_ || finished_) return;
  working_ = true;
  executor_->Post([self = shared_from_this()] { self->Work(); });
}

void BulkReceiver::Work() {
  while (WorkStep()) {
  }
}

// One thing that is to be done; false when there is nothing more, or the call is over.
bool BulkReceiver::WorkStep() {
  std::unique_ptr<Chunk> chunk;
  bool begin = false;
  bool complete = false;
  {
    MutexLock lock(mutex_);
    // What has come whole may be worth keeping: the sink decides.
    if (cancelled_ && !ended_ && error_.ok()) error_ = CallerGone();
    if (!error_.ok()) {
      FinishLocked(error_);
      return false;
    }
    begin = std::exchange(begin_wanted_, false);
    if (!begin && !queue_.empty()) {
      chunk = std::move(queue_.front());
      queue_.pop_front();
    } else if (!begin && !ended_) {
      working_ = false;
      return false;
    }
    complete = complete_;
  }
  absl::Status status;
  bool over = false;
  if (begin) {
    absl::StatusOr<bool> wanted = sink_->Begin();
    status = wanted.status();
    over = wanted.ok() && !*wanted;
  } else if (chunk != nullptr) {
    status = sink_->Append({chunk->buffer.data(), chunk->filled}, chunk->table);
    if (status.ok()) Recycle(std::move(chunk));
  } else {
    status = sink_->End(complete);
    over = status.ok();
    sink_.reset();  // nothing more comes that would be decoded
  }
  if (status.ok() && !over) return true;
  MutexLock lock(mutex_);
  FinishLocked(status);
  return false;
}

void BulkReceiver::Recycle(std::unique_ptr<Chunk> chunk) {
  chunk->filled = 0;
  chunk->table.clear();
  bool place = false;
  {
    MutexLock lock(mutex_);
    place = std::exchange(waiting_for_room_, false);
    if (!place && chunk->extra.bytes() == 0) base_free_ = true;
  }
  if (!place) return;  // an extra chunk is given back here
  filling_ = std::move(chunk);
  Place();
}

void BulkReceiver::Fail(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (error_.ok()) error_ = status;
  if (!working_) FinishLocked(status);
}

void BulkReceiver::Cancel() {
  uint64_t ticket = 0;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (granted_) {
      if (!working_) FinishLocked(CallerGone());
      return;
    }
    ticket = ticket_;
  }
  // Not granted yet: the wait ends here, or Granted ends the call.
  if (ticket == 0 || !budget_->Cancel(ticket)) return;
  MutexLock lock(mutex_);
  FinishLocked(CallerGone());
}

void BulkReceiver::FinishLocked(const absl::Status& status) {
  if (std::exchange(finished_, true)) return;
  carrier_->FinishCall(status);
}

}  // namespace tilekv
