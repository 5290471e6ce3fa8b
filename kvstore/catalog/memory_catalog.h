// A catalog in a map, for tests and for stores in memory. Lasts as long as the object. Thread-safe.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>

#include "kvstore/base/clock.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/random.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/catalog/lease_table.h"

namespace tilekv {

class MemoryCatalog : public Catalog {
 public:
  // Both outlive the catalog.
  explicit MemoryCatalog(Clock* clock = Clock::System(), Random* random = Random::System());

  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override;
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                   size_t limit) override;
  absl::StatusOr<TxnResult> Txn(const CatalogTxn& txn) override;
  absl::StatusOr<std::unique_ptr<CatalogSnapshot>> Snapshot() override;
  absl::StatusOr<Revision> CurrentRevision() override;
  absl::StatusOr<LeaseId> Grant(int64_t ttl_s) override;
  absl::StatusOr<bool> KeepAlive(LeaseId lease, int64_t ttl_s) override;
  absl::Status Revoke(LeaseId lease) override;
  size_t max_txn_operations() const override { return max_txn_operations_; }

  // For tests, before anything else is done: as a catalog that takes fewer operations at once.
  void set_max_txn_operations(size_t most) { max_txn_operations_ = most; }

 private:
  using Entries = std::map<std::string, CatalogEntry>;
  class HeldSnapshot;

  // Copies the map first where a snapshot may read it.
  Entries& Writable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write(const std::string& key, const CatalogWrite& write)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLease(LeaseId lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ExpireDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  size_t max_txn_operations_ = std::numeric_limits<size_t>::max();
  LeaseTable leases_;
  Mutex mutex_;
  std::shared_ptr<Entries> entries_ ABSL_GUARDED_BY(mutex_) = std::make_shared<Entries>();
  bool entries_shared_ ABSL_GUARDED_BY(mutex_) = false;  // with a snapshot
  Revision revision_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
