// Leases in etcd. Their time runs there, from the last renewal, and is fixed when they are granted;
// etcd makes it 2 s at least.
//
// A renewal that wants more time than was granted is kept by a thread that renews until that time
// is up; one that wants less leaves the lease what it was granted. A lease that was renewed here
// just now (a tenth of its time, 5 s at most) is not asked for again: that somebody ended it shows
// a moment later, and always in a transaction. A process that ends takes the thread with it, and
// then the lease ends by itself.
//
// Thread-safe; blocks.
#pragma once

#include <cstdint>
#include <map>
#include <thread>

#include "absl/status/statusor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/catalog/etcd/etcd_options.h"
#include "kvstore/catalog/etcd/etcd_rpc.h"

namespace tilekv {

class EtcdLeases {
 public:
  // Both outlive the leases.
  EtcdLeases(EtcdRpc& rpc, const EtcdOptions& options) : rpc_(rpc), options_(options) {}
  ~EtcdLeases();

  absl::StatusOr<LeaseId> Grant(int64_t ttl_s);
  absl::StatusOr<bool> KeepAlive(LeaseId lease, int64_t ttl_s);
  // OUTCOME_UNKNOWN: it may have ended.
  absl::Status Revoke(LeaseId lease);

 private:
  struct Lease {
    int64_t granted_ns = 0;
    int64_t renewed_ns = 0;  // when it was last asked for, before the answer
    int64_t keep_until_ns = 0;
  };

  absl::StatusOr<bool> Renew(LeaseId lease);
  int64_t Deadline() const;
  void Run();
  // The next lease to renew, if one is due; else `wait_ns` until one is.
  LeaseId NextDue(int64_t& wait_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  EtcdRpc& rpc_;
  const EtcdOptions& options_;

  Mutex mutex_;
  CondVar changed_;
  std::map<LeaseId, Lease> leases_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread keeper_ ABSL_GUARDED_BY(mutex_);  // from the first lease that needs it
};

}  // namespace tilekv
