// Answering reads under a budget, without gRPC: the disk reads one step ahead of the network,
// and nothing is read before its memory is reserved.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "kvstore/base/executor.h"
#include "kvstore/base/mutex.h"
#include "server/message_source.h"
#include "server/stream_budget.h"

namespace tilekv {

// Where the messages go. Its calls do not block and do not call back at once.
class ReadCarrier {
 public:
  virtual ~ReadCarrier() = default;
  // ReadPipeline::Sent follows. `more_at_once`: another message is there already.
  virtual void Send(ReadMessage message, bool more_at_once) = 0;
  // That memory was waited for.
  virtual void BudgetWaited(int64_t) {}
  // The end, once; nothing is asked of the carrier afterwards.
  virtual void FinishCall(const absl::Status& status) = 0;
  // Ends a call whose client takes little: what is being sent comes back, and ReadPipeline::Cancel
  // is called.
  virtual void BreakOff() = 0;
};

// Thread-safe. Owned by shared_ptr: work in progress keeps it alive; the carrier must stay alive
// until FinishCall.
class ReadPipeline : public std::enable_shared_from_this<ReadPipeline> {
 public:
  // `budget` and `executor` outlive the pipeline.
  ReadPipeline(ReadCarrier* carrier, StreamBudget* budget, Executor* executor)
      : carrier_(carrier), budget_(budget), executor_(executor) {}
  ~ReadPipeline();

  void Start(std::unique_ptr<MessageSource> source);
  void Sent(bool ok);
  // The other end is gone.
  void Cancel();
  // Its client is too slow: the call ends with this error. Nothing happens when it is over.
  void BreakOff(const absl::Status& status);

 private:
  void Step();
  void Reserve(uint64_t bytes);
  void Read(Reservation reservation, int64_t waited_nanos);
  void SendLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndCancelledLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ReadCarrier* const carrier_;
  StreamBudget* const budget_;
  Executor* const executor_;
  std::unique_ptr<MessageSource> source_;  // used by the one step in progress

  Mutex mutex_;
  std::deque<ReadMessage> ready_ ABSL_GUARDED_BY(mutex_);
  bool stepping_ ABSL_GUARDED_BY(mutex_) = false;  // memory is waited for, or the disk read
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  bool produced_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_off_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
