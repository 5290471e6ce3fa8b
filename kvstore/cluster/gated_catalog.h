// A catalog that fails at once while it is known not to answer: nobody waits for a timeout after
// the first who did, and no queue of waiting calls stands when it is back.
//
// A call that ends with NODE_UNAVAILABLE shuts the gate; whoever asks the catalog behind it, as a
// node's heartbeat does all the time, opens it again. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kvstore/base/mutex.h"
#include "kvstore/catalog/catalog.h"

namespace tilekv {

class GatedCatalog : public Catalog {
 public:
  // `catalog` outlives the gate.
  explicit GatedCatalog(Catalog& catalog) : catalog_(catalog) {}

  // How a call to the catalog behind the gate ended. NODE_UNAVAILABLE shuts it, success opens it,
  // anything else leaves it as it is.
  void Answered(const absl::Status& status);
  bool is_shut();

  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override;
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                   size_t limit) override;
  absl::StatusOr<TxnResult> Txn(const CatalogTxn& txn) override;
  absl::StatusOr<std::unique_ptr<CatalogSnapshot>> Snapshot() override;
  absl::StatusOr<Revision> CurrentRevision() override;
  absl::Status CheckWritable() override { return catalog_.CheckWritable(); }
  absl::StatusOr<uint64_t> LogInDoubt() override { return catalog_.LogInDoubt(); }
  absl::Status EndDoubt() override { return catalog_.EndDoubt(); }
  TableFiles* tables() override { return catalog_.tables(); }
  uint64_t inline_value_bytes() const override { return catalog_.inline_value_bytes(); }
  size_t max_txn_operations() const override { return catalog_.max_txn_operations(); }
  absl::Status Compact(Revision revision) override;
  absl::StatusOr<LeaseId> Grant(int64_t ttl_s) override;
  absl::StatusOr<bool> KeepAlive(LeaseId lease, int64_t ttl_s) override;
  absl::Status Revoke(LeaseId lease) override;

 private:
  absl::Status CheckOpen();
  template <typename Call>
  auto Through(Call call) -> decltype(call());

  Catalog& catalog_;
  Mutex mutex_;
  absl::Status shut_ ABSL_GUARDED_BY(mutex_);  // why; OK: it is open
};

}  // namespace tilekv
