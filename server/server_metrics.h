// What a node counts about itself, for /metrics. Meanings: the help texts of server_metrics.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/base/mutex.h"
#include "kvstore/node/scrubber.h"
#include "kvstore/object/object_store.h"

namespace prometheus {
class Collectable;
class Counter;
class Gauge;
class Histogram;
class Registry;
template <typename T>
class Family;
}  // namespace prometheus

namespace tilekv {

// Of a node of a cluster, as it sees it.
struct ClusterFigures {
  uint64_t nodes = 0;
  uint64_t nodes_away = 0;
  uint64_t map_version = 0;  // its number
  bool catalog_answers = false;
  uint64_t catalog_bytes = 0;
  uint64_t catalog_quota_bytes = 0;
  // Since the start, as ClusterCounters has them.
  uint64_t short_writes = 0;
  uint64_t refused_writes = 0;
  uint64_t failed_copies = 0;
  uint64_t peer_reads = 0;
  uint64_t hedged_reads = 0;
  // The same, of RoundCounters.
  uint64_t swept_objects = 0;
  uint64_t swept_bytes = 0;
  // Of the node's repair: since the start, as RepairCounters has them, and what is left.
  uint64_t pulled_objects = 0;
  uint64_t pulled_bytes = 0;
  uint64_t failed_pulls = 0;
  uint64_t dropped_objects = 0;
  uint64_t repair_objects_left = 0;
  uint64_t repair_bytes_left = 0;
  uint64_t repair_missing_objects = 0;
  int64_t repair_waiting_s = 0;
};

// Thread-safe.
class ServerMetrics {
 public:
  ServerMetrics();
  ~ServerMetrics();

  // One call of this name ended. `code` is absl's, and gRPC's.
  void CallEnded(std::string_view call, absl::StatusCode code, int64_t micros);
  void ReceivedBytes(uint64_t bytes);  // of bulk data, from clients
  void SentBytes(uint64_t bytes);      // of bulk data, to clients
  // How long a stream of this class waited for its memory.
  void BudgetWaited(std::string_view budget, int64_t micros);
  // The same as a function, of a budget whose name lives as long as it; this object outlives it.
  std::function<void(int64_t)> WaitsOf(const char* budget) {
    return [this, budget](int64_t micros) { BudgetWaited(budget, micros); };
  }

  // Asked for at each scrape. Budgets and the function outlive this object.
  void WatchBudget(std::string_view name, ByteBudget* budget);
  void WatchUsage(std::function<absl::StatusOr<StoreUsage>()> usage);
  void WatchCollectionHeld(std::function<bool()> held);
  void WatchScrub(std::function<ScrubStats()> scrub);
  // Only of a node of a cluster: other nodes have none of these metrics.
  void WatchCluster(std::function<ClusterFigures()> cluster);

  // What is given to a scraper.
  std::shared_ptr<prometheus::Collectable> collectable() const;

 private:
  class Scrape;
  struct CallMetrics {
    prometheus::Histogram* seconds = nullptr;
    std::map<absl::StatusCode, prometheus::Counter*> ended;
  };
  CallMetrics& ForCall(std::string_view call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<prometheus::Registry> registry_;
  const std::shared_ptr<Scrape> scrape_;
  prometheus::Family<prometheus::Histogram>& call_seconds_;
  prometheus::Family<prometheus::Counter>& calls_;
  prometheus::Family<prometheus::Histogram>& budget_wait_seconds_;
  prometheus::Counter& received_bytes_;
  prometheus::Counter& sent_bytes_;

  Mutex mutex_;
  std::map<std::string, CallMetrics, std::less<>> by_call_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
