// Receiving a stream whose whole content is small, without gRPC: each message is worked on where it
// lies in the carrier's memory, so that no chunk is reserved, filled or waited for.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/mutex.h"
#include "server/bulk_receiver.h"

namespace tilekv {

class SmallReceiver : public StreamReceiver, public std::enable_shared_from_this<SmallReceiver> {
 public:
  // `executor` outlives the receiver.
  SmallReceiver(BulkCarrier* carrier, std::unique_ptr<BulkSink> sink, Executor* executor);
  ~SmallReceiver() override;

  void Received(std::span<const Bytes> pieces) override;
  void Ended() override;
  void Cancel() override;
  void Fail(const absl::Status& status) override;

 private:
  void Post(bool complete);
  void Work();
  // OK with `over` false: the next message is wanted.
  absl::Status WorkOnMessage(bool& over);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  BulkCarrier* const carrier_;
  Executor* const executor_;

  // Of whoever handles a message, then of the work on it; nobody else's until the next is asked
  // for.
  std::unique_ptr<BulkSink> sink_;
  IncomingMessage incoming_;
  bool begun_ = false;
  bool ended_ = false;  // no more messages

  Mutex mutex_;
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
