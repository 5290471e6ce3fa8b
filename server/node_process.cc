#include "server/node_process.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/node/local_node.h"
#include "kvstore/node/open_catalog.h"
#include "kvstore/node/scrubber.h"
#include "kvstore/object/local_engine.h"
#include "server/http_endpoint.h"
#include "server/log.h"
#include "server/memory_plan.h"
#include "server/node_server.h"
#include "server/periodic_work.h"
#include "server/server_metrics.h"

namespace tilekv {
namespace {

constexpr int64_t kScrubRetryMs = 60'000;  // after an error
constexpr int64_t kFirstLookMs = 60'000;   // of a cluster's node, whether a round is due

void NoticeOfStore(const std::string& text) {
  LogEvent(LogLevel::kWarning, "store", {{"notice", text}});
}

class RunningNode : public NodeProcess {
 public:
  explicit RunningNode(const NodeProcessOptions& options)
      : options_(options),
        pool_(BufferPool::Create(PlanMemory(options.memory_bytes).pool_idle_bytes)) {}

  ~RunningNode() override { Stop(0); }

  absl::Status Start() {
    // Ports first: one that is taken is the commonest mistake, and the lock names the address.
    TILEKV_ASSIGN_OR_RETURN(http_, HttpEndpoint::Start(options_.http, metrics_, [this] {
                              return ready_ && node_->CheckHealth().ok();
                            }));
    TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<PortClaim> claim, PortClaim::Take(options_.listen));
    if (options_.cluster.is_set()) {
      TILEKV_ASSIGN_OR_RETURN(cluster_, ClusterNode::Reach(options_.cluster, options_.wait));
    }
    TILEKV_RETURN_IF_ERROR(OpenStore(claim->address()));
    scrubber_ = std::make_unique<Scrubber>(
        *engine_, kDefaultDomain, *Clock::System(), options_.scrub_period_s,
        ScrubbedTables{.of = {engine_->tables(), catalog().tables()}, .notice = &NoticeOfStore});
    metrics_.WatchScrub([this] { return scrubber_->stats(); });
    metrics_.WatchCollectionHeld([this] { return node_->collection_held(); });
    metrics_.WatchUsage([this] { return engine_->Usage(); });
    if (cluster_ != nullptr) metrics_.WatchCluster([this] { return cluster_->figures(); });
    NodeServerOptions server;
    server.listen = claim->address().ToString();
    server.memory_bytes = options_.memory_bytes;
    server.slow_call_ms = options_.slow_call_ms;
    if (cluster_ != nullptr) server.peers = cluster_->peer_service();
    TILEKV_ASSIGN_OR_RETURN(server_, NodeServer::Start(*node_, metrics_, server));
    if (cluster_ != nullptr) {
      TILEKV_RETURN_IF_ERROR(cluster_->Join());
      collecting_ = std::make_unique<PacedWork>(std::min(options_.collect_every_ms, kFirstLookMs),
                                                [this] { return CollectIfDue(); });
    } else {
      collecting_ = std::make_unique<PacedWork>(options_.collect_every_ms, [this] {
        CollectOnce();
        return options_.collect_every_ms;
      });
    }
    TILEKV_RETURN_IF_ERROR(WriteAddresses(claim->address().ToString()));
    ready_ = true;
    scrubbing_ = std::make_unique<PacedWork>(0, [this] { return ScrubOnce(); });
    LogEvent(LogLevel::kInfo, "serving",
             {{"grpc", claim->address().ToString()},
              {"http", http_->address().ToString()},
              {"data_dir", options_.data_dir},
              {"store", engine_->store_uuid()},
              {"max_object_bytes", fmt::format("{}", engine_->max_object_bytes())},
              {"memory_bytes", fmt::format("{}", options_.memory_bytes)}});
    return absl::OkStatus();
  }

  void Stop(int64_t drain_ms) override {
    ready_ = false;
    stopping_.cancel->Cancel();
    collecting_.reset();
    scrubbing_.reset();
    if (cluster_ != nullptr) cluster_->Leave();
    if (server_ != nullptr) {
      server_->Shutdown(drain_ms);
      std::remove(AddressFile().c_str());
    }
    server_.reset();
    http_.reset();
  }

 private:
  absl::Status OpenStore(const ListenAddress& address) {
    LocalEngineOptions engine;
    engine.directory = options_.data_dir;
    engine.create_if_missing = true;
    engine.max_object_bytes = options_.max_object_bytes;
    if (cluster_ != nullptr) {
      TILEKV_RETURN_IF_ERROR(CheckClusterLimit());
      engine.max_object_bytes = cluster_->map().settings().max_object_bytes;
      engine.cluster_uuid = cluster_->map().cluster_uuid();
    }
    engine.server_address = address.ToString();
    engine.file_system = options_.file_system;
    engine.pool = pool_;
    engine.notice = &NoticeOfStore;
    TILEKV_ASSIGN_OR_RETURN(engine_, LocalEngine::Open(engine));
    if (cluster_ != nullptr) {
      TILEKV_RETURN_IF_ERROR(cluster_->Open(*engine_, options_.data_dir, address.ToString(),
                                            PlanMemory(options_.memory_bytes, /*cluster=*/true),
                                            pool_));
    } else {
      LocalCatalogOptions catalog;
      catalog.directory = options_.data_dir;
      catalog.notice = &NoticeOfStore;
      TILEKV_ASSIGN_OR_RETURN(catalog_, OpenStoreCatalog(std::move(catalog), *engine_));
    }
    NodeOptions node;
    node.kind = "node";
    node.pool = pool_;
    node.scratch = {FileSystem::Posix(), options_.data_dir + "/tmp"};
    node.holds_rounds = true;
    if (cluster_ != nullptr) {
      node.cluster = &cluster_->admin();
      node.collection = &cluster_->collection();
      node.survey = &cluster_->survey();
    }
    ObjectStore& objects = cluster_ != nullptr ? cluster_->objects() : *engine_;
    TILEKV_ASSIGN_OR_RETURN(node_, LocalNode::Create(objects, catalog(), node));
    TILEKV_ASSIGN_OR_RETURN(uint64_t removed, engine_->RemoveUnnamedFiles());
    if (removed > 0) {
      LogEvent(LogLevel::kInfo, "removed_unfinished_files",
               {{"files", fmt::format("{}", removed)}});
    }
    return absl::OkStatus();
  }

  Catalog& catalog() { return cluster_ != nullptr ? cluster_->catalog() : *catalog_; }

  absl::Status CheckClusterLimit() const {
    const uint64_t limit_bytes = cluster_->map().settings().max_object_bytes;
    if (options_.max_object_bytes.value_or(limit_bytes) == limit_bytes) return absl::OkStatus();
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("--max-object-bytes is {}; the cluster's is {}: leave it out",
                    FormatSizeShort(*options_.max_object_bytes), FormatSizeShort(limit_bytes)));
  }

  // Of a cluster, whose nodes all look whether a round is due. Returns the milliseconds until the
  // next look.
  int64_t CollectIfDue() {
    const absl::StatusOr<int64_t> due_ms = node_->CollectionDueIn_ms(options_.collect_every_ms);
    // The heartbeat tells of a catalog that does not answer.
    if (!due_ms.ok()) return std::min(options_.collect_every_ms, kFirstLookMs);
    if (*due_ms == 0) CollectOnce();
    return std::min(std::max<int64_t>(*due_ms, kFirstLookMs), options_.collect_every_ms);
  }

  void CollectOnce() {
    absl::StatusOr<v1::CollectResponse> round = node_->Collect({}, stopping_);
    if (cluster_ != nullptr && GetReason(round.status()) == Reason::kOverloaded) {
      LogEvent(LogLevel::kInfo, "not_collecting", {{"reason", ErrorText(round.status())}});
      return;
    }
    if (round.ok() && round->held()) {
      LogEvent(LogLevel::kWarning, "collection_held",
               {{"round", HexEncode(AsBytes(round->round()))},
                {"unexplained_bytes", fmt::format("{}", round->unexplained_bytes())},
                {"remedy",
                 "names are gone that nobody deleted: look for them before the objects "
                 "go too; 'tilekv store gc --confirm ROUND' deletes what is not named"}});
    } else if (round.ok()) {
      LogEvent(LogLevel::kInfo, "collected",
               {{"purged_versions", fmt::format("{}", round->purged_versions())},
                {"deleted_objects", fmt::format("{}", round->deleted_objects())},
                {"deleted_bytes", fmt::format("{}", round->deleted_bytes())}});
      for (const std::string& node : round->not_reached()) {
        LogEvent(LogLevel::kWarning, "not_collected_at", {{"node", node}});
      }
    } else if (GetReason(round.status()) != Reason::kCancelled) {
      LogEvent(LogLevel::kWarning, "collect_failed", {{"error", ErrorText(round.status())}});
    }
  }

  // Returns the milliseconds until the next step. What is damaged comes as the store's notice.
  int64_t ScrubOnce() {
    absl::StatusOr<int64_t> wait_micros = scrubber_->Step(stopping_);
    if (wait_micros.ok()) return *wait_micros / 1'000;
    if (GetReason(wait_micros.status()) != Reason::kCancelled) {
      LogEvent(LogLevel::kWarning, "scrub_failed", {{"error", ErrorText(wait_micros.status())}});
    }
    return kScrubRetryMs;
  }

  std::string AddressFile() const { return options_.data_dir + "/ADDRESS"; }

  absl::Status WriteAddresses(const std::string& grpc) {
    std::string path = AddressFile();
    std::string unfinished = path + ".tmp";
    {
      std::ofstream file(unfinished, std::ios::trunc);
      file << "grpc " << grpc << "\nhttp " << http_->address().ToString() << "\n";
      file.close();
      if (!file.fail() && std::rename(unfinished.c_str(), path.c_str()) == 0) {
        return absl::OkStatus();
      }
    }
    return MakeError(Reason::kInternal, fmt::format("cannot write '{}'", Printable(path)));
  }

  const NodeProcessOptions options_;
  const std::shared_ptr<BufferPool> pool_;
  std::atomic<bool> ready_{false};
  const CallContext stopping_{.cancel = std::make_shared<CancelToken>()};
  // In the order of their lives.
  std::unique_ptr<LocalEngine> engine_;
  std::unique_ptr<Catalog> catalog_;      // of a node by itself
  std::unique_ptr<ClusterNode> cluster_;  // null: a node by itself
  std::unique_ptr<LocalNode> node_;
  ServerMetrics metrics_;
  std::unique_ptr<HttpEndpoint> http_;
  std::unique_ptr<NodeServer> server_;
  std::unique_ptr<Scrubber> scrubber_;
  std::unique_ptr<PacedWork> collecting_;
  std::unique_ptr<PacedWork> scrubbing_;
};

}  // namespace

absl::Status CheckOptions(const NodeProcessOptions& options) {
  TILEKV_RETURN_IF_ERROR(CheckClusterOptions(options.cluster));
  if (options.max_object_bytes.has_value() &&
      (*options.max_object_bytes < kLeastMaxObjectBytes ||
       *options.max_object_bytes > kGreatestMaxObjectBytes)) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("--max-object-bytes is {}; it may be {} to {}",
                                 FormatSizeShort(*options.max_object_bytes),
                                 FormatSizeShort(kLeastMaxObjectBytes),
                                 FormatSizeShort(kGreatestMaxObjectBytes)));
  }
  if (options.memory_bytes < kLeastMemoryBytes) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("--memory is {}; a node needs {} at least", FormatSize(options.memory_bytes),
                    FormatSizeShort(kLeastMemoryBytes)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NodeProcess>> NodeProcess::Start(const NodeProcessOptions& options) {
  TILEKV_RETURN_IF_ERROR(CheckOptions(options));
  auto node = std::make_unique<RunningNode>(options);
  TILEKV_RETURN_IF_ERROR(node->Start());
  return node;
}

}  // namespace tilekv
