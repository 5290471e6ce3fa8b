// Receiving a stream of bulk messages under a budget, without gRPC: messages come from the
// carrier's threads, chunks go to the disk on an executor, and no message is asked for until there
// is room for it.
//
// A stream reserves one chunk before its first message, so that accepted streams never wait for
// each other; a second one, so that network and disk overlap, only if it is to be had at once.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/mutex.h"
#include "server/stream_budget.h"

namespace tilekv {

// A message, taken apart. Everything points into the carrier's memory.
struct IncomingMessage {
  std::vector<Bytes> data;
  std::vector<uint32_t> table;  // of the blocks in data; then they are given on as they came
  bool last = false;            // nothing follows
};

// What is done with what comes. Only Decode runs in the carrier's threads; the others run on the
// executor, one at a time, and so does the destructor.
class BulkSink {
 public:
  virtual ~BulkSink() = default;
  // Takes one message apart; checks what can be checked without the disk.
  virtual absl::StatusOr<IncomingMessage> Decode(std::span<const Bytes> pieces) = 0;
  // After the first message was decoded. False: the answer is known, no data is wanted.
  virtual absl::StatusOr<bool> Begin() = 0;
  virtual absl::Status Append(Bytes data, std::span<const uint32_t> table) = 0;
  // Everything has come. `complete`: the last message said so. The other end may be gone by then,
  // and while the last of it is appended.
  virtual absl::Status End(bool complete) = 0;
};

// The stream that the messages come from. Its calls do not block and do not call back at once.
class BulkCarrier {
 public:
  virtual ~BulkCarrier() = default;
  // Asks for the next message: BulkReceiver::Received, or Ended where there is none. The memory of
  // the message before it is free again.
  virtual void AskForMessage() = 0;
  // That memory was waited for.
  virtual void BudgetWaited(int64_t) {}
  // The end, once; nothing is asked of the carrier afterwards.
  virtual void FinishCall(const absl::Status& status) = 0;
};

// What a carrier tells of its stream. Owned by shared_ptr: work in progress keeps it alive; the
// carrier must stay alive until FinishCall. Thread-safe.
class StreamReceiver {
 public:
  virtual ~StreamReceiver() = default;
  virtual void Received(std::span<const Bytes> pieces) = 0;
  virtual void Ended() = 0;
  // The other end is gone.
  virtual void Cancel() = 0;
  // Ends the call with this error. Nothing happens when it is over.
  virtual void Fail(const absl::Status& status) = 0;
};

class BulkReceiver : public StreamReceiver, public std::enable_shared_from_this<BulkReceiver> {
 public:
  // `budget` and `executor` outlive the receiver.
  BulkReceiver(BulkCarrier* carrier, std::unique_ptr<BulkSink> sink, StreamBudget* budget,
               std::shared_ptr<BufferPool> pool, Executor* executor);
  ~BulkReceiver() override;

  // Asks for messages as soon as there is memory for them.
  void Start();
  void Received(std::span<const Bytes> pieces) override;
  void Ended() override;
  void Cancel() override;
  void Fail(const absl::Status& status) override;

 private:
  struct Chunk {
    Reservation extra;  // nothing for the chunk that the stream holds throughout
    Buffer buffer;
    uint64_t filled = 0;
    std::vector<uint32_t> table;
  };

  void Granted(Reservation reservation, int64_t waited_nanos);
  void Place();
  bool MakeRoom(uint64_t bytes, bool coded);
  void CopyIncoming();
  void Enqueue(std::unique_ptr<Chunk> chunk);
  void EndInput(bool complete);
  void KickLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work();
  bool WorkStep();
  void Recycle(std::unique_ptr<Chunk> chunk);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  BulkCarrier* const carrier_;
  StreamBudget* const budget_;
  const std::shared_ptr<BufferPool> pool_;
  Executor* const executor_;
  // Used by Decode and by Work, which do not meet on what either changes.
  std::shared_ptr<BulkSink> sink_;

  // The receiving side: whoever handles a message owns these; nobody else does until the next is
  // asked for.
  IncomingMessage incoming_;
  std::unique_ptr<Chunk> filling_;

  Mutex mutex_;
  uint64_t ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  bool granted_ ABSL_GUARDED_BY(mutex_) = false;
  Reservation base_ ABSL_GUARDED_BY(mutex_);
  bool base_free_ ABSL_GUARDED_BY(mutex_) = false;
  bool waiting_for_room_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::unique_ptr<Chunk>> queue_ ABSL_GUARDED_BY(mutex_);
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  bool begin_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool complete_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool first_ ABSL_GUARDED_BY(mutex_) = true;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
