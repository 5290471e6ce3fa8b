#include "server/server_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <optional>
#include <utility>

namespace tilekv {
namespace {

// From 100 microseconds to a minute, three steps to each power of ten.
const prometheus::Histogram::BucketBoundaries kSeconds = {
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
    0.1,    0.2,    0.5,    1,     2,     5,     10,   20,   60};

double Seconds(int64_t micros) { return static_cast<double>(micros) / 1e6; }

}  // namespace

// The registry, with gauges brought up to date whenever it is asked.
class ServerMetrics::Scrape : public prometheus::Collectable {
 public:
  explicit Scrape(std::shared_ptr<prometheus::Registry> registry)
      : registry_(std::move(registry)),
        budget_used_(Gauges("tilekv_budget_used_bytes", "Memory that streams of a class hold")),
        budget_total_(Gauges("tilekv_budget_total_bytes", "Memory that a class may hold")),
        objects_(Gauges("tilekv_objects", "Objects in the store").Add({})),
        content_bytes_(Gauges("tilekv_content_bytes", "Content of all objects").Add({})),
        stored_bytes_(Gauges("tilekv_stored_bytes", "Objects as coded on disk").Add({})),
        quarantined_(Gauges("tilekv_quarantined_objects", "Objects that failed a check").Add({})),
        disk_total_(Gauges("tilekv_disk_total_bytes", "Size of the data disk").Add({})),
        disk_available_(Gauges("tilekv_disk_available_bytes", "Room on the data disk").Add({})),
        collection_held_(Gauges("tilekv_collection_held",
                                "1 while the collector waits for a person (store gc --confirm)")
                             .Add({})),
        scrub_objects_(
            Gauges("tilekv_scrub_objects", "Objects read from the disk and checked since the start")
                .Add({})),
        scrub_bytes_(Gauges("tilekv_scrub_bytes", "Stored bytes of these").Add({})),
        scrub_damaged_(Gauges("tilekv_scrub_damaged", "Of these, found damaged").Add({})),
        scrub_rounds_(Gauges("tilekv_scrub_rounds", "Looks at all objects so far").Add({})),
        scrub_tables_(
            Gauges("tilekv_scrub_tables", "Tables of index and catalog read and checked").Add({})),
        scrub_damaged_tables_(
            Gauges("tilekv_scrub_damaged_tables", "Of these, found damaged").Add({})) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    MutexLock lock(mutex_);
    for (const auto& [name, budget] : budgets_) {
      budget_used_.Add({{"class", name}}).Set(static_cast<double>(budget->used_bytes()));
      budget_total_.Add({{"class", name}}).Set(static_cast<double>(budget->total_bytes()));
    }
    if (usage_) SetUsage(usage_());
    if (held_) collection_held_.Set(held_() ? 1 : 0);
    if (scrub_) SetScrub(scrub_());
    if (cluster_) SetCluster(cluster_());
    return registry_->Collect();
  }

  void Watch(std::string_view name, ByteBudget* budget) {
    MutexLock lock(mutex_);
    budgets_.emplace_back(name, budget);
  }
  void Watch(std::function<absl::StatusOr<StoreUsage>()> usage) {
    MutexLock lock(mutex_);
    usage_ = std::move(usage);
  }
  void WatchScrub(std::function<ScrubStats()> scrub) {
    MutexLock lock(mutex_);
    scrub_ = std::move(scrub);
  }
  void WatchHeld(std::function<bool()> held) {
    MutexLock lock(mutex_);
    held_ = std::move(held);
  }

  void WatchCluster(std::function<ClusterFigures()> cluster) {
    MutexLock lock(mutex_);
    gauges_.emplace(*this);
    cluster_ = std::move(cluster);
  }

 private:
  struct ClusterGauges {
    explicit ClusterGauges(Scrape& scrape)
        : nodes(scrape.Gauges("tilekv_cluster_nodes", "Nodes of the cluster's map").Add({})),
          nodes_away(scrape.Gauges("tilekv_cluster_nodes_away", "Of these, not here").Add({})),
          map_version(
              scrape.Gauges("tilekv_cluster_map_version", "Number of the map acted on").Add({})),
          catalog_answers(
              scrape.Gauges("tilekv_catalog_answers", "1 while etcd answers this node").Add({})),
          catalog_bytes(
              scrape.Gauges("tilekv_catalog_bytes", "Of its quota that etcd has used").Add({})),
          catalog_quota_bytes(
              scrape.Gauges("tilekv_catalog_quota_bytes", "What etcd may use").Add({})),
          short_writes(
              scrape.Gauges("tilekv_short_writes", "Puts with fewer copies than asked").Add({})),
          refused_writes(
              scrape.Gauges("tilekv_refused_writes", "Puts with too few copies").Add({})),
          failed_copies(
              scrape.Gauges("tilekv_failed_copies", "Copies given up at another node").Add({})),
          peer_reads(
              scrape.Gauges("tilekv_peer_reads", "Reads that another node was asked for").Add({})),
          hedged_reads(
              scrape.Gauges("tilekv_hedged_reads", "Of these, asked of one more node").Add({})),
          swept_objects(
              scrape.Gauges("tilekv_swept_objects", "Copies deleted by rounds of the collector")
                  .Add({})),
          swept_bytes(scrape.Gauges("tilekv_swept_bytes", "Content of these").Add({})),
          pulled_objects(
              scrape.Gauges("tilekv_pulled_objects", "Copies that repair brought here").Add({})),
          pulled_bytes(
              scrape.Gauges("tilekv_pulled_bytes", "The same in bytes, as stored").Add({})),
          failed_pulls(
              scrape.Gauges("tilekv_failed_pulls", "Pulls that found no copy or no room").Add({})),
          dropped_objects(
              scrape.Gauges("tilekv_dropped_objects", "Copies given up to their owners").Add({})),
          repair_objects_left(
              scrape.Gauges("tilekv_repair_objects_left", "Objects that this node lacks").Add({})),
          repair_bytes_left(scrape.Gauges("tilekv_repair_bytes_left", "Content of these").Add({})),
          repair_missing_objects(
              scrape.Gauges("tilekv_repair_missing_objects", "Of these, without a copy anywhere")
                  .Add({})),
          repair_waiting_seconds(
              scrape.Gauges("tilekv_repair_waiting_seconds", "Since when it lacks something")
                  .Add({})) {}

    prometheus::Gauge& nodes;
    prometheus::Gauge& nodes_away;
    prometheus::Gauge& map_version;
    prometheus::Gauge& catalog_answers;
    prometheus::Gauge& catalog_bytes;
    prometheus::Gauge& catalog_quota_bytes;
    prometheus::Gauge& short_writes;
    prometheus::Gauge& refused_writes;
    prometheus::Gauge& failed_copies;
    prometheus::Gauge& peer_reads;
    prometheus::Gauge& hedged_reads;
    prometheus::Gauge& swept_objects;
    prometheus::Gauge& swept_bytes;
    prometheus::Gauge& pulled_objects;
    prometheus::Gauge& pulled_bytes;
    prometheus::Gauge& failed_pulls;
    prometheus::Gauge& dropped_objects;
    prometheus::Gauge& repair_objects_left;
    prometheus::Gauge& repair_bytes_left;
    prometheus::Gauge& repair_missing_objects;
    prometheus::Gauge& repair_waiting_seconds;
  };

  prometheus::Family<prometheus::Gauge>& Gauges(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_);
  }
  void SetUsage(const absl::StatusOr<StoreUsage>& usage) const {
    if (!usage.ok()) return;  // the figures of the scrape before stay
    objects_.Set(static_cast<double>(usage->objects));
    content_bytes_.Set(static_cast<double>(usage->content_bytes));
    stored_bytes_.Set(static_cast<double>(usage->stored_bytes));
    quarantined_.Set(static_cast<double>(usage->quarantined_objects));
    disk_total_.Set(static_cast<double>(usage->disk_total_bytes));
    disk_available_.Set(static_cast<double>(usage->disk_available_bytes));
  }

  void SetScrub(const ScrubStats& scrub) const {
    scrub_objects_.Set(static_cast<double>(scrub.objects));
    scrub_bytes_.Set(static_cast<double>(scrub.bytes));
    scrub_damaged_.Set(static_cast<double>(scrub.damaged));
    scrub_rounds_.Set(static_cast<double>(scrub.rounds));
    scrub_tables_.Set(static_cast<double>(scrub.tables));
    scrub_damaged_tables_.Set(static_cast<double>(scrub.damaged_tables));
  }

  void SetCluster(const ClusterFigures& figures) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    gauges_->nodes.Set(static_cast<double>(figures.nodes));
    gauges_->nodes_away.Set(static_cast<double>(figures.nodes_away));
    gauges_->map_version.Set(static_cast<double>(figures.map_version));
    gauges_->catalog_answers.Set(figures.catalog_answers ? 1 : 0);
    gauges_->catalog_bytes.Set(static_cast<double>(figures.catalog_bytes));
    gauges_->catalog_quota_bytes.Set(static_cast<double>(figures.catalog_quota_bytes));
    gauges_->short_writes.Set(static_cast<double>(figures.short_writes));
    gauges_->refused_writes.Set(static_cast<double>(figures.refused_writes));
    gauges_->failed_copies.Set(static_cast<double>(figures.failed_copies));
    gauges_->peer_reads.Set(static_cast<double>(figures.peer_reads));
    gauges_->hedged_reads.Set(static_cast<double>(figures.hedged_reads));
    gauges_->swept_objects.Set(static_cast<double>(figures.swept_objects));
    gauges_->swept_bytes.Set(static_cast<double>(figures.swept_bytes));
    gauges_->pulled_objects.Set(static_cast<double>(figures.pulled_objects));
    gauges_->pulled_bytes.Set(static_cast<double>(figures.pulled_bytes));
    gauges_->failed_pulls.Set(static_cast<double>(figures.failed_pulls));
    gauges_->dropped_objects.Set(static_cast<double>(figures.dropped_objects));
    gauges_->repair_objects_left.Set(static_cast<double>(figures.repair_objects_left));
    gauges_->repair_bytes_left.Set(static_cast<double>(figures.repair_bytes_left));
    gauges_->repair_missing_objects.Set(static_cast<double>(figures.repair_missing_objects));
    gauges_->repair_waiting_seconds.Set(static_cast<double>(figures.repair_waiting_s));
  }

  const std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Gauge>& budget_used_;
  prometheus::Family<prometheus::Gauge>& budget_total_;
  prometheus::Gauge& objects_;
  prometheus::Gauge& content_bytes_;
  prometheus::Gauge& stored_bytes_;
  prometheus::Gauge& quarantined_;
  prometheus::Gauge& disk_total_;
  prometheus::Gauge& disk_available_;
  prometheus::Gauge& collection_held_;
  prometheus::Gauge& scrub_objects_;
  prometheus::Gauge& scrub_bytes_;
  prometheus::Gauge& scrub_damaged_;
  prometheus::Gauge& scrub_rounds_;
  prometheus::Gauge& scrub_tables_;
  prometheus::Gauge& scrub_damaged_tables_;
  mutable Mutex mutex_;
  std::vector<std::pair<std::string, ByteBudget*>> budgets_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::StatusOr<StoreUsage>()> usage_ ABSL_GUARDED_BY(mutex_);
  std::function<bool()> held_ ABSL_GUARDED_BY(mutex_);
  std::function<ScrubStats()> scrub_ ABSL_GUARDED_BY(mutex_);
  std::optional<ClusterGauges> gauges_ ABSL_GUARDED_BY(mutex_);
  std::function<ClusterFigures()> cluster_ ABSL_GUARDED_BY(mutex_);
};

ServerMetrics::ServerMetrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      scrape_(std::make_shared<Scrape>(registry_)),
      call_seconds_(prometheus::BuildHistogram()
                        .Name("tilekv_call_seconds")
                        .Help("Time from a call's start to its end, by call")
                        .Register(*registry_)),
      calls_(prometheus::BuildCounter()
                 .Name("tilekv_calls_total")
                 .Help("Calls that ended, by call and gRPC code")
                 .Register(*registry_)),
      budget_wait_seconds_(prometheus::BuildHistogram()
                               .Name("tilekv_budget_wait_seconds")
                               .Help("Time that streams waited for memory, by class")
                               .Register(*registry_)),
      received_bytes_(prometheus::BuildCounter()
                          .Name("tilekv_received_bytes_total")
                          .Help("Bulk data from clients")
                          .Register(*registry_)
                          .Add({})),
      sent_bytes_(prometheus::BuildCounter()
                      .Name("tilekv_sent_bytes_total")
                      .Help("Bulk data to clients")
                      .Register(*registry_)
                      .Add({})) {}

ServerMetrics::~ServerMetrics() = default;

ServerMetrics::CallMetrics& ServerMetrics::ForCall(std::string_view call) {
  auto found = by_call_.find(call);
  if (found != by_call_.end()) return found->second;
  CallMetrics metrics;
  metrics.seconds = &call_seconds_.Add({{"call", std::string(call)}}, kSeconds);
  return by_call_.emplace(std::string(call), std::move(metrics)).first->second;
}

void ServerMetrics::CallEnded(std::string_view call, absl::StatusCode code, int64_t micros) {
  MutexLock lock(mutex_);
  CallMetrics& metrics = ForCall(call);
  metrics.seconds->Observe(Seconds(micros));
  prometheus::Counter*& ended = metrics.ended[code];
  if (ended == nullptr) {
    ended = &calls_.Add({{"call", std::string(call)}, {"code", absl::StatusCodeToString(code)}});
  }
  ended->Increment();
}

void ServerMetrics::ReceivedBytes(uint64_t bytes) {
  received_bytes_.Increment(static_cast<double>(bytes));
}

void ServerMetrics::SentBytes(uint64_t bytes) { sent_bytes_.Increment(static_cast<double>(bytes)); }

void ServerMetrics::BudgetWaited(std::string_view budget, int64_t micros) {
  budget_wait_seconds_.Add({{"class", std::string(budget)}}, kSeconds).Observe(Seconds(micros));
}

void ServerMetrics::WatchBudget(std::string_view name, ByteBudget* budget) {
  scrape_->Watch(name, budget);
}

void ServerMetrics::WatchUsage(std::function<absl::StatusOr<StoreUsage>()> usage) {
  scrape_->Watch(std::move(usage));
}

void ServerMetrics::WatchScrub(std::function<ScrubStats()> scrub) {
  scrape_->WatchScrub(std::move(scrub));
}

void ServerMetrics::WatchCluster(std::function<ClusterFigures()> cluster) {
  scrape_->WatchCluster(std::move(cluster));
}

void ServerMetrics::WatchCollectionHeld(std::function<bool()> held) {
  scrape_->WatchHeld(std::move(held));
}

std::shared_ptr<prometheus::Collectable> ServerMetrics::collectable() const { return scrape_; }

}  // namespace tilekv
