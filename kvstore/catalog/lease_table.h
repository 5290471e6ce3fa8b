// Leases of a catalog on one machine: deadlines in memory, and the keys that go with each. Shared
// by LocalCatalog and MemoryCatalog. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kvstore/base/clock.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/random.h"
#include "kvstore/catalog/catalog.h"

namespace tilekv {

class LeaseTable {
 public:
  // Both must outlive the table.
  LeaseTable(Clock& clock, Random& random) : clock_(clock), random_(random) {}

  LeaseId Grant(int64_t ttl_s);
  // False when it has ended, also when only its time is over.
  bool KeepAlive(LeaseId lease, int64_t ttl_s);
  bool IsLive(LeaseId lease);
  // In order; empty when there is none.
  std::vector<std::string> KeysOf(LeaseId lease);
  // Ends it and returns its keys, in order; empty when there is none.
  std::vector<std::string> End(LeaseId lease);
  // Whether the time of any lease is over: asked before every operation.
  bool AnyDue();
  // The leases whose time is over. They are not live, but stay here until End.
  std::vector<LeaseId> Due();

  // The key now goes with this lease (0: with none) and with no other.
  void Attach(const std::string& key, LeaseId lease);

 private:
  struct Lease {
    int64_t deadline_ns = 0;
    std::set<std::string> keys;
  };
  int64_t DeadlineFor(int64_t ttl_s);

  Clock& clock_;
  Random& random_;
  Mutex mutex_;
  std::map<LeaseId, Lease> leases_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, LeaseId> owners_ ABSL_GUARDED_BY(mutex_);  // keys that go with a lease
};

}  // namespace tilekv
