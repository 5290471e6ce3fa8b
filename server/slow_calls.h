// The log of slow calls: one line for each, with what it waited for. So many lines a minute at
// most: a bad hour does not fill the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

// A call that ended. What is left of its time is the node's own work: disk and processor.
struct EndedCall {
  std::string name;
  std::string peer;
  absl::Status status;
  uint64_t bytes = 0;  // of a transfer
  int64_t total_nanos = 0;
  int64_t queue_nanos = 0;   // waiting for a thread or a place
  int64_t budget_nanos = 0;  // waiting for memory
  int64_t client_nanos = 0;  // waiting for the client

  int64_t work_nanos() const;
};

// Thread-safe.
class SlowCalls {
 public:
  // `unlogged`: slow calls before this one for which there was no line.
  using Write = std::function<void(const EndedCall& call, uint64_t unlogged)>;

  // A call is slow that takes longer than `slow_call_ms`, its waits for its client not counted, and
  // one in which nothing moved for so long, and for kSlowClient_s: whether it is the client that
  // stood still, an operator shall see. 0: none is.
  SlowCalls(int64_t slow_call_ms, Write write, Clock* clock = Clock::System())
      : slow_call_ms_(slow_call_ms), write_(std::move(write)), clock_(clock) {}

  bool IsSlow(int64_t total_nanos, int64_t client_nanos, int64_t longest_client_nanos) const;
  // To the log, where there is a line left.
  void Add(const EndedCall& call);

 private:
  const int64_t slow_call_ms_;
  const Write write_;
  Clock* const clock_;
  Mutex mutex_;
  int64_t minute_began_nanos_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t lines_ ABSL_GUARDED_BY(mutex_) = 0;  // in this minute
  uint64_t unlogged_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A line of the node's log.
void LogSlowCall(const EndedCall& call, uint64_t unlogged);

}  // namespace tilekv
