// Nodes that others did not wait for just now. For a while links and reads go to them last, until
// the network has noticed by itself whether they are there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

// Thread-safe.
class LateNodes {
 public:
  explicit LateNodes(Clock& clock) : clock_(clock) {}

  void Add(const std::string& node_id) {
    MutexLock lock(mutex_);
    until_nanos_[node_id] = clock_.MonotonicNanos() + kCounts_nanos;
  }
  bool Has(std::string_view node_id) {
    MutexLock lock(mutex_);
    const auto found = until_nanos_.find(node_id);
    if (found == until_nanos_.end()) return false;
    if (clock_.MonotonicNanos() < found->second) return true;
    until_nanos_.erase(found);
    return false;
  }

 private:
  // An answer fails by itself within.
  static constexpr int64_t kCounts_nanos = kPeerCall_ms * 1'000'000;

  Clock& clock_;
  Mutex mutex_;
  std::map<std::string, int64_t, std::less<>> until_nanos_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
