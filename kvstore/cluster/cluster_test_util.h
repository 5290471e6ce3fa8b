// For tests: a cluster's catalog in memory, told time by the test, and the watch on it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/base/clock.h"
#include "kvstore/base/random.h"
#include "kvstore/base/simulated_disk.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/catalog_watch.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/catalog/memory_catalog.h"
#include "kvstore/cluster/cluster_file.h"
#include "kvstore/cluster/cluster_join.h"
#include "kvstore/cluster/map_store.h"
#include "kvstore/placement/placement_test_util.h"

namespace tilekv {

// A catalog that can be away. What is asked of it then has not happened.
class TestCatalog : public MemoryCatalog {
 public:
  using MemoryCatalog::MemoryCatalog;
  bool away = false;

  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override {
    TILEKV_RETURN_IF_ERROR(Reach());
    return MemoryCatalog::Get(key);
  }
  absl::StatusOr<TxnResult> Txn(const CatalogTxn& txn) override {
    TILEKV_RETURN_IF_ERROR(Reach());
    return MemoryCatalog::Txn(txn);
  }
  absl::StatusOr<LeaseId> Grant(int64_t ttl_s) override {
    TILEKV_RETURN_IF_ERROR(Reach());
    return MemoryCatalog::Grant(ttl_s);
  }
  absl::StatusOr<bool> KeepAlive(LeaseId lease, int64_t ttl_s) override {
    TILEKV_RETURN_IF_ERROR(Reach());
    return MemoryCatalog::KeepAlive(lease, ttl_s);
  }

 private:
  absl::Status Reach() const {
    return away ? MakeError(Reason::kNodeUnavailable, "etcd is away") : absl::OkStatus();
  }
};

struct TestCluster {
  TestCluster() {
    TILEKV_CHECK(disk.file_system()->CreateDirectory("/node").ok());
    TILEKV_CHECK(disk.file_system()->SyncDirectory("/").ok());
  }

  static constexpr int64_t kMicrosPerSecond = 1'000'000;
  void Advance(int64_t seconds) { clock.Advance(seconds * kMicrosPerSecond); }

  std::unique_ptr<MapStore> OpenMaps() {
    auto maps = MapStore::Open(catalog);
    TILEKV_CHECK(maps.ok());
    return *std::move(maps);
  }
  std::unique_ptr<ClusterFile> OpenFile() {
    auto file = ClusterFile::Open(*disk.file_system(), "/node");
    TILEKV_CHECK(file.ok());
    return *std::move(file);
  }
  static JoiningNode Joining(const std::string& id) {
    return {.id = id, .store_uuid = TestUuid(id), .address = id + ":7070", .host = "host-" + id};
  }
  // A cluster with these nodes.
  StoredMap Init(MapStore& maps, const std::vector<std::string>& ids,
                 const ClusterSettings& settings = {}) {
    TILEKV_CHECK(InitCluster(maps, "test", settings, random).ok());
    for (const std::string& id : ids) TILEKV_CHECK(JoinCluster(maps, Joining(id)).ok());
    return **maps.Read();
  }
  // Everything that a watch tells at first.
  CatalogUpdate Everything() {
    const KeyRange range = ClusterRange();
    auto page = catalog.List(range.start, range.end, 1'000);
    TILEKV_CHECK(page.ok());
    return {.everything = true,
            .entries = std::move(page->entries),
            .deleted = {},
            .revision = page->revision};
  }

  ManualClock clock;
  SeededRandom random{1};
  TestCatalog catalog{&clock, &random};
  SimulatedDisk disk{1};
};

}  // namespace tilekv
