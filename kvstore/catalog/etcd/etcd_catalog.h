// EtcdCatalog: a cluster's catalog, in etcd 3.4 or later, under the prefix /tilekv/CLUSTER/.
//
// 1. Reads are linearizable: they see every write that was over before they began. A key's version
//    is its mod_revision. How keys, values and revisions lie in etcd: etcd_codec.h,
//    docs/formats.md.
// 2. Every write compares the line record as it was when the catalog was opened. A line that has
//    changed, or an etcd whose revisions have gone back, is CATALOG_REWOUND, for this object for
//    ever; reads go on.
// 3. Writes: grouping, repetition, unknown outcomes: etcd_writer.h.
// 4. Calls are over within the timeout. An etcd that cannot be reached, is stopped or has no
//    majority is NODE_UNAVAILABLE, with its addresses; all goes on by itself when it is back.
//    Its quota used up is STORE_FULL; deletes still work.
// 5. Leases run on etcd's clock: etcd_leases.h.
//
// Thread-safe; calls block.
#pragma once

#include <memory>
#include <string>

#include "kvstore/catalog/catalog.h"
#include "kvstore/catalog/etcd/etcd_codec.h"
#include "kvstore/catalog/etcd/etcd_leases.h"
#include "kvstore/catalog/etcd/etcd_listing.h"
#include "kvstore/catalog/etcd/etcd_options.h"
#include "kvstore/catalog/etcd/etcd_rpc.h"
#include "kvstore/catalog/etcd/etcd_watch.h"
#include "kvstore/catalog/etcd/etcd_writer.h"
#include "kvstore/catalog/etcd/line_guard.h"

namespace tilekv {

struct EtcdStatus {
  std::string version;
  uint64_t database_bytes = 0;  // what etcd's quota is for
  uint64_t in_use_bytes = 0;    // what would be left after compaction and 'etcdctl defrag'
  bool has_leader = false;
};

class EtcdCatalog : public Catalog {
 public:
  // NOT_FOUND: the etcd has no such cluster, and none is to be made. DATA_LOSS: it has keys of the
  // cluster but not its line. NODE_UNAVAILABLE, UNAUTHENTICATED, INVALID_ARGUMENT.
  static absl::StatusOr<std::unique_ptr<EtcdCatalog>> Open(const EtcdOptions& options);
  // With other means to reach it.
  static absl::StatusOr<std::unique_ptr<EtcdCatalog>> Open(const EtcdOptions& options,
                                                           std::unique_ptr<EtcdRpc> rpc);
  // Snapshots and watches are gone before.
  ~EtcdCatalog() override = default;

  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override;
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                   size_t limit) override;
  absl::StatusOr<TxnResult> Txn(const CatalogTxn& txn) override;
  absl::StatusOr<std::unique_ptr<CatalogSnapshot>> Snapshot() override;
  absl::StatusOr<Revision> CurrentRevision() override;
  absl::Status CheckWritable() override { return guard_.Check(); }
  size_t max_txn_operations() const override;
  absl::Status Compact(Revision revision) override;
  absl::StatusOr<LeaseId> Grant(int64_t ttl_s) override { return leases_.Grant(ttl_s); }
  absl::StatusOr<bool> KeepAlive(LeaseId lease, int64_t ttl_s) override {
    return leases_.KeepAlive(lease, ttl_s);
  }
  absl::Status Revoke(LeaseId lease) override { return leases_.Revoke(lease); }

  // Keys in [start, end). Tries for ever to reach etcd, in the background.
  std::unique_ptr<CatalogWatch> Watch(const std::string& start, const std::string& end,
                                      CatalogUpdateCallback callback);
  // Of the member that answers.
  absl::StatusOr<EtcdStatus> Status();

 private:
  class HeldSnapshot;

  EtcdCatalog(const EtcdOptions& options, std::unique_ptr<EtcdRpc> rpc);
  absl::Status Start();
  absl::Status CreateLine();
  int64_t Deadline() const;
  // At `etcd_revision`, or the present one when 0.
  absl::StatusOr<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request,
                                                    int64_t deadline_ns);
  absl::StatusOr<std::optional<CatalogEntry>> GetAt(const std::string& key, int64_t etcd_revision);
  absl::StatusOr<CatalogPage> ListAt(const std::string& start, const std::string& end, size_t limit,
                                     int64_t etcd_revision);

  const EtcdOptions options_;
  const std::unique_ptr<EtcdRpc> rpc_;
  EtcdCodec codec_;
  LineGuard guard_;
  BlockSizes block_sizes_;
  EtcdLeases leases_;
  EtcdWriter writer_;
};

}  // namespace tilekv
