// Places for bulk calls: as many are served at once as the node's memory allows, others wait in
// order, and only beyond a bound of waiting ones, or after a while, is one refused.
//
// A call that waits holds little: of a read its request, of a put what its client sends ahead,
// which is why fewer puts may wait. A place whose client stands still, or is slow, is given to one
// who waits: otherwise a few of those clients stop a node. Only the time counts in which the call
// waits for its client, never the node's own. For a while such a client waits behind all others,
// since it comes again at once.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
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
  // A call that has waited so long for its client while fewer bytes moved may lose its place.
  int64_t stalled_ms = kStalledTransfer_s * 1'000;
  uint64_t least_bytes = kLeastTransferBytes;
  int64_t slow_client_ms = kSlowClientWaits_s * 1'000;  // so long it then waits behind others
  Clock* clock = Clock::System();
};

// Thread-safe.
class StreamSlots {
 public:
  enum class Kind { kPut, kRead };
  struct Caller {
    Kind kind = Kind::kRead;
    std::string peer;  // names the client's connection
  };
  using End = std::function<void(const absl::Status&)>;

  explicit StreamSlots(const StreamSlotOptions& options) : options_(options) {}

  // Names a call to the others below.
  uint64_t NewTicket();
  // `granted` is called once: at once in the caller, or later in a thread that gives a place back
  // or calls Tick, which must not block. OK: the call has a place until Leave. OVERLOADED: it is
  // refused, and says when to come again. `end` is called, at most once, when the place is needed
  // and the call's client is too slow; the call may be over by then.
  void Enter(uint64_t ticket, Caller caller, End end, std::function<void(absl::Status)> granted);
  // True: `granted` was not called and will not be.
  bool Cancel(uint64_t ticket);
  // The call is over. Nothing happens where it has no place.
  void Leave(uint64_t ticket);
  // From now on the call waits for its client, or no more, since so many bytes have moved.
  void WaitsForClient(uint64_t ticket, bool waits, uint64_t moved_bytes = 0);
  // Refuses those who have waited too long, and ends as many as wait of those whose clients are too
  // slow, the slowest first. From time to time.
  void Tick();

  uint64_t held();
  uint64_t waiting();

 private:
  struct Held {
    std::string peer;
    End end;                                   // none: it was called
    std::optional<int64_t> waits_since_nanos;  // for its client
    // Since least_bytes had moved last.
    int64_t waited_nanos = 0;
    uint64_t moved_bytes = 0;

    int64_t WaitedNanos(int64_t now_nanos) const {
      return waited_nanos + (waits_since_nanos ? now_nanos - *waits_since_nanos : 0);
    }
  };
  struct Waiting {
    uint64_t ticket = 0;
    Caller caller;
    bool slow = false;
    int64_t since_nanos = 0;
    End end;
    std::function<void(absl::Status)> granted;
  };

  absl::Status Refusal(const char* why) const;
  absl::Status TooSlow() const;
  uint64_t& WaitingOf(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return kind == Kind::kPut ? waiting_puts_ : waiting_reads_;
  }
  void Hold(uint64_t ticket, std::string peer, End end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayWait(const Waiting& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(Waiting waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::list<Waiting>::iterator LastSlow(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Waiting Remove(std::list<Waiting>::iterator waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<End> TakeTooSlow(int64_t now_nanos) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StreamSlotOptions options_;
  Mutex mutex_;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  std::unordered_map<uint64_t, Held> held_ ABSL_GUARDED_BY(mutex_);
  // First come, first served; those of slow clients after all others.
  std::list<Waiting> queue_ ABSL_GUARDED_BY(mutex_);
  // Clients that lost a place, and until when they count as slow.
  std::unordered_map<std::string, int64_t> slow_until_nanos_ ABSL_GUARDED_BY(mutex_);
  uint64_t waiting_puts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t waiting_reads_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tilekv
