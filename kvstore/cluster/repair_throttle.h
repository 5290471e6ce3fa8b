// How fast a node may pull.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvstore/base/clock.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

// Thread-safe. Whoever begins a pull pays for it, and the next one begins when what was paid is
// worked off, but for a tenth of a second: so the rate holds over any longer time, and many small
// objects need not be waited for one by one.
class RepairThrottle {
 public:
  RepairThrottle(Clock& clock, uint64_t bytes_per_second)
      : clock_(clock), bytes_per_second_(bytes_per_second) {}

  void SetRate(uint64_t bytes_per_second) {
    MutexLock lock(mutex_);
    bytes_per_second_ = std::max<uint64_t>(bytes_per_second, 1);
  }
  // How long the next pull is to wait; 0: it may begin.
  int64_t Wait_nanos() {
    MutexLock lock(mutex_);
    return std::max<int64_t>(0, free_nanos_ - kAhead_nanos - clock_.MonotonicNanos());
  }
  void Pay(uint64_t bytes) {
    MutexLock lock(mutex_);
    // What an object costs beside its bytes.
    const uint64_t cost = std::max(bytes, kLeastCostBytes);
    free_nanos_ = std::max(free_nanos_, clock_.MonotonicNanos()) +
                  static_cast<int64_t>(static_cast<double>(cost) * 1e9 /
                                       static_cast<double>(bytes_per_second_));
  }

 private:
  static constexpr int64_t kAhead_nanos = 100'000'000;
  static constexpr uint64_t kLeastCostBytes = 4096;

  Clock& clock_;
  Mutex mutex_;
  uint64_t bytes_per_second_ ABSL_GUARDED_BY(mutex_);
  int64_t free_nanos_ ABSL_GUARDED_BY(mutex_) = 0;  // when all that was paid is worked off
};

}  // namespace tilekv
