// How much of etcd's quota a cluster's catalog has used up: new names are refused before etcd
// refuses every write, so that there is room to remove some.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

struct CatalogFigures {
  std::string version;  // of etcd
  uint64_t database_bytes = 0;
  uint64_t in_use_bytes = 0;  // what would be left after defragmentation
};

// Thread-safe.
class CatalogRoom {
 public:
  // `quota_bytes` as etcd was told; `notice` from Look, in a sentence.
  CatalogRoom(uint64_t quota_bytes, std::function<void(const std::string&)> notice);

  // What etcd says now, or why it does not answer. Every kEtcdLookEvery_s or so.
  void Look(const absl::StatusOr<CatalogFigures>& figures);
  // STORE_FULL from kEtcdRefusePercent on.
  absl::Status Check() const;

  absl::StatusOr<CatalogFigures> figures();
  uint64_t quota_bytes() const { return quota_bytes_; }

 private:
  enum Level { kRoom, kWarned, kRefused };

  const uint64_t quota_bytes_;
  const std::function<void(const std::string&)> notice_;
  std::atomic<Level> level_{kRoom};
  Mutex mutex_;
  absl::StatusOr<CatalogFigures> figures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
