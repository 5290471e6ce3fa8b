// Places for bulk calls: as many are served at once as the node's memory allows, others wait in
// order, and only beyond a bound of waiting ones, or after a while, is one refused.
//
// A call that waits holds little: of a read its request, of a put what its client sends ahead,
// which is why fewer puts may wait. A place whose client stands still is given to one who waits:
// otherwise a few of those clients stop a node.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

struct StreamSlotOptions {
  uint64_t slots = 0;
  uint64_t max_waiting_puts = 0;
  uint64_t max_waiting_reads = kMaxWaitingReads;
  int64_t queue_ms = kTransferQueue_s * 1'000;
  int64_t stalled_ms = kStalledTransfer_s * 1'000;
  Clock* clock = Clock::System();
};

// Thread-safe.
class StreamSlots {
 public:
  enum class Kind { kPut, kRead };

  explicit StreamSlots(const StreamSlotOptions& options) : options_(options) {}

  // Names a call to the others below.
  uint64_t NewTicket();
  // `granted` is called once: at once in the caller, or later in a thread that gives a place back
  // or calls Tick, which must not block. OK: the call has a place until Leave. OVERLOADED: it is
  // refused, and says when to come again. `end` is called, at most once, when the place is needed
  // and the call's client stands still; the call may be over by then.
  void Enter(uint64_t ticket, Kind kind, std::function<void()> end,
             std::function<void(absl::Status)> granted);
  // True: `granted` was not called and will not be.
  bool Cancel(uint64_t ticket);
  // The call is over. Nothing happens where it has no place.
  void Leave(uint64_t ticket);
  // From now on the call waits for its client, or no more.
  void WaitsForClient(uint64_t ticket, bool waits);
  // Refuses those who have waited too long, and ends whoever stands still while others wait. From
  // time to time.
  void Tick();

  uint64_t held();
  uint64_t waiting();

 private:
  struct Held {
    std::function<void()> end;
    std::optional<int64_t> still_since_nanos;  // since when it waits for its client
  };
  struct Waiting {
    uint64_t ticket = 0;
    Kind kind = Kind::kRead;
    int64_t since_nanos = 0;
    std::function<void()> end;
    std::function<void(absl::Status)> granted;
  };

  absl::Status Refusal(const char* why) const;
  uint64_t& WaitingOf(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return kind == Kind::kPut ? waiting_puts_ : waiting_reads_;
  }
  void Hold(uint64_t ticket, std::function<void()> end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StreamSlotOptions options_;
  Mutex mutex_;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  std::unordered_map<uint64_t, Held> held_ ABSL_GUARDED_BY(mutex_);
  std::list<Waiting> queue_ ABSL_GUARDED_BY(mutex_);  // first come, first served
  uint64_t waiting_puts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t waiting_reads_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tilekv
