// The catalog's conformance suite on a real etcd, which all of it shares: each test has a cluster
// of its own in it.
#include <atomic>
#include <memory>

#include "fmt/format.h"
#include "kvstore/catalog/catalog_conformance.h"
#include "kvstore/catalog/etcd/etcd_catalog.h"
#include "kvstore/catalog/lease_table.h"
#include "tests/support/etcd_process.h"

namespace tilekv {
namespace {

// etcd's leases run on its own clock. The suite decides the time: a lease whose time is over on the
// suite's clock is ended here, as etcd would by itself.
class ClockedLeases : public Catalog {
 public:
  ClockedLeases(std::unique_ptr<EtcdCatalog> catalog, Clock* clock, Random* random)
      : catalog_(std::move(catalog)), deadlines_(*clock, *random) {}

  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override {
    Expire();
    return catalog_->Get(key);
  }
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                   size_t limit) override {
    Expire();
    return catalog_->List(start, end, limit);
  }
  absl::StatusOr<TxnResult> Txn(const CatalogTxn& txn) override {
    Expire();
    return catalog_->Txn(txn);
  }
  absl::StatusOr<std::unique_ptr<CatalogSnapshot>> Snapshot() override {
    Expire();
    return catalog_->Snapshot();
  }
  absl::StatusOr<Revision> CurrentRevision() override {
    Expire();
    return catalog_->CurrentRevision();
  }
  absl::StatusOr<LeaseId> Grant(int64_t ttl_s) override {
    auto lease = catalog_->Grant(ttl_s);
    if (lease.ok()) of_deadline_[deadlines_.Grant(ttl_s)] = *lease;
    return lease;
  }
  absl::StatusOr<bool> KeepAlive(LeaseId lease, int64_t ttl_s) override {
    Expire();
    for (auto [deadline, of_etcd] : of_deadline_) {
      if (of_etcd == lease) deadlines_.KeepAlive(deadline, ttl_s);
    }
    return catalog_->KeepAlive(lease, ttl_s);
  }
  absl::Status Revoke(LeaseId lease) override { return catalog_->Revoke(lease); }

 private:
  void Expire() {
    for (LeaseId due : deadlines_.Due()) {
      deadlines_.End(due);
      EXPECT_TRUE(catalog_->Revoke(of_deadline_[due]).ok());
    }
  }

  const std::unique_ptr<EtcdCatalog> catalog_;
  LeaseTable deadlines_;
  std::map<LeaseId, LeaseId> of_deadline_;
};

EtcdProcess& Etcd() {
  static std::unique_ptr<EtcdProcess> etcd = std::make_unique<EtcdProcess>();
  return *etcd;
}

std::shared_ptr<Catalog> Make(Clock* clock, Random* random) {
  static std::atomic<int> number{0};
  EtcdOptions options;
  options.endpoints = Etcd().endpoints();
  options.cluster = fmt::format("conformance-{}", number++);
  options.create_if_missing = true;
  options.timeout_ms = 30'000;  // a busy machine is not what is tested
  options.random = random;
  auto catalog = EtcdCatalog::Open(options);
  if (!catalog.ok()) {
    ADD_FAILURE() << catalog.status();
    abort();
  }
  return std::make_shared<ClockedLeases>(*std::move(catalog), clock, random);
}

INSTANTIATE_TEST_SUITE_P(Etcd, CatalogConformance, testing::Values(CatalogMaker{"etcd", Make}));

}  // namespace
}  // namespace tilekv
