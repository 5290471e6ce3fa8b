// LocalCatalog: the catalog of one directory, in a RocksDB of its own.
//
// 1. Transactions queue. The first in the queue leads: it takes all that wait, evaluates each
//    against the database and what earlier ones of the same batch write, and writes one synced
//    batch. Each that applies has a revision of its own; the newest is part of the batch.
// 2. Readers see RocksDB's state, which a synced write enters only after the sync: nothing is
//    visible that could still be lost.
// 3. The time of leases is looked at before every operation; keys of those that are over go in a
//    transaction of their own. Leases end with the process: opening as writer deletes the keys of
//    all leases found. A lease leaves the table only after its keys' end was written.
// 4. A failed write is final. Those whose writes it held get OUTCOME_UNKNOWN, as the log may have
//    them all the same and the next opening then finds them; every later write gets STORE_FAILED.
//    Reads go on with what was written before; leases do not end any more.
//
// Thread-safe. One writer a directory is the caller's business (the store's lock). Any number of
// read-only openers beside it: they see the newest state at each call, and between a snapshot's
// begin and end the state of its begin; writes are PERMISSION_DENIED.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/random.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/catalog/lease_table.h"

namespace rocksdb {
class Env;
class WriteBatch;
}  // namespace rocksdb

namespace tilekv {

class CatalogDb;

struct LocalCatalogOptions {
  std::string directory;  // the store's; the catalog is in DIR/catalog
  bool create_if_missing = false;
  bool read_only = false;
  // Of the store beside it: STORE_MISMATCH where a catalog is another's. Empty: not asked.
  std::string store_uuid = {};
  // Told in a sentence what an operator should know. From the opening.
  std::function<void(const std::string&)> notice = nullptr;

  // Seams; all outlive the catalog.
  rocksdb::Env* rocksdb_env = nullptr;  // none: RocksDB's default
  Clock* clock = Clock::System();
  Random* random = Random::System();
};

class LocalCatalog : public Catalog {
 public:
  // NOT_FOUND where there is none and none is to be made; STORE_MISMATCH: a later format;
  // DATA_LOSS: damaged.
  static absl::StatusOr<std::unique_ptr<LocalCatalog>> Open(const LocalCatalogOptions& options);
  // Snapshots are gone before.
  ~LocalCatalog() override;

  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override;
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                   size_t limit) override;
  absl::StatusOr<TxnResult> Txn(const CatalogTxn& txn) override;
  absl::StatusOr<std::unique_ptr<CatalogSnapshot>> Snapshot() override;
  absl::StatusOr<Revision> CurrentRevision() override;
  absl::Status CheckWritable() override;
  absl::StatusOr<uint64_t> LogInDoubt() override;
  absl::Status EndDoubt() override;
  TableFiles* tables() override;
  // One synced write instead of two.
  uint64_t inline_value_bytes() const override { return kLocalInlineValueBytes; }
  absl::StatusOr<LeaseId> Grant(int64_t ttl_s) override;
  absl::StatusOr<bool> KeepAlive(LeaseId lease, int64_t ttl_s) override;
  absl::Status Revoke(LeaseId lease) override;

 private:
  class HeldSnapshot;
  struct Batch;
  // One call that waits: a transaction, or the end of leases.
  struct Waiting {
    const CatalogTxn* txn = nullptr;  // null: end `leases`
    std::vector<LeaseId> leases;
    absl::StatusOr<TxnResult> result = TxnResult{};
    bool done = false;
    CondVar turn;  // it is done, or is to lead
  };

  LocalCatalog(const LocalCatalogOptions& options, std::unique_ptr<CatalogDb> db);
  absl::Status Start();
  // Before a read: ends leases whose time is over, or sees what the writer did.
  absl::Status BeforeRead();
  absl::StatusOr<TxnResult> Submit(Waiting& waiting);
  void Lead(std::deque<Waiting*>& taken);
  absl::Status RunBatch(std::deque<Waiting*>& taken);
  // Where that fails, gives those of `taken` that have writes in it OUTCOME_UNKNOWN.
  absl::Status WriteBatch(Batch& batch, std::deque<Waiting*>& taken);
  absl::StatusOr<TxnResult> Evaluate(Batch& batch, const CatalogTxn& txn);
  absl::StatusOr<TxnResult> EvaluateEnd(Batch& batch, const std::vector<LeaseId>& leases);

  const LocalCatalogOptions options_;
  const std::unique_ptr<CatalogDb> db_;
  LeaseTable leases_;

  Mutex mutex_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);  // of the first write that failed
  std::deque<Waiting*> queue_ ABSL_GUARDED_BY(mutex_);
  bool leading_ ABSL_GUARDED_BY(mutex_) = false;
  Revision revision_;  // of the leader alone
};

}  // namespace tilekv
