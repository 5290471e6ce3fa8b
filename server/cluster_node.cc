#include "server/cluster_node.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/etcd/etcd_catalog.h"
#include "kvstore/catalog/etcd/etcd_endpoints.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/cluster/catalog_room.h"
#include "kvstore/cluster/cluster_collection.h"
#include "kvstore/cluster/cluster_file.h"
#include "kvstore/cluster/cluster_join.h"
#include "kvstore/cluster/cluster_objects.h"
#include "kvstore/cluster/cluster_operator.h"
#include "kvstore/cluster/cluster_state.h"
#include "kvstore/cluster/cluster_survey.h"
#include "kvstore/cluster/gated_catalog.h"
#include "kvstore/cluster/map_store.h"
#include "kvstore/cluster/node_registry.h"
#include "kvstore/cluster/node_rounds.h"
#include "kvstore/cluster/repair_answers.h"
#include "kvstore/cluster/repairer.h"
#include "kvstore/cluster/round_store.h"
#include "kvstore/node/store_repair.h"
#include "server/grpc_peers.h"
#include "server/listen_address.h"
#include "server/log.h"
#include "server/periodic_work.h"

namespace tilekv {
namespace {

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int64_t kMicrosPerMilli = 1'000;
// Between two surveys of all partitions that damage or short writes are the reason for.
constexpr int64_t kLookAgainEvery_ms = 10'000;
// After an error of this node's disk.
constexpr int64_t kRepairAfterError_ms = 5'000;
constexpr int64_t kReachEvery_ms = 1'000;
constexpr int64_t kTellWaitingEvery_ms = 30'000;
constexpr uint64_t kMaxPasswordBytes = 4 * kKiB;
// Between heartbeats while the catalog does not answer: so soon its return is noticed.
constexpr int64_t kKnockEvery_ms = 250;
// Calls that wait for several nodes at once; who calls works too.
constexpr int kClusterThreads = 32;
// However little memory there is, some puts go on beside each other.
constexpr uint64_t kLeastReplicaChunks = 8;

std::string MachineName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

bool MayPass(const absl::Status& status) {
  switch (GetReason(status)) {
    case Reason::kNodeUnavailable:
    case Reason::kOverloaded:
    case Reason::kDeadlineExceeded:
    case Reason::kOutcomeUnknown:
      return true;
    default:
      return false;
  }
}

void NoticeOfCluster(const std::string& text) {
  LogEvent(LogLevel::kWarning, "cluster", {{"notice", text}});
}

v1::RepairStatus RepairStatusOf(const RepairProgress& progress) {
  v1::RepairStatus status;
  status.set_placement_version(progress.placement.version.value);
  status.set_complete(progress.complete);
  status.set_owned_partitions(progress.owned_partitions);
  status.set_short_partitions(progress.short_partitions);
  status.set_unanswered_partitions(progress.unanswered_partitions);
  status.set_objects_to_pull(progress.objects_to_pull);
  status.set_bytes_to_pull(progress.bytes_to_pull);
  status.set_missing_objects(progress.missing_objects);
  status.set_foreign_partitions(progress.foreign_partitions);
  status.set_pulled_bytes_per_second(progress.pulled_bytes_per_second);
  status.set_waiting_seconds(progress.waiting_s);
  return status;
}

absl::StatusOr<std::string> ReadPassword(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(*FileSystem::Posix(), path, kMaxPasswordBytes);
  if (!text.ok()) return WithContext(text.status(), "--etcd-password-file");
  return text->substr(0, text->find('\n'));
}

class EtcdClusterNode : public ClusterNode {
 public:
  explicit EtcdClusterNode(const ClusterNodeOptions& options) : options_(options) {}
  ~EtcdClusterNode() override { Leave(); }

  absl::Status Reach(const WaitFunction& wait) {
    if (!options_.etcd_password_file.empty()) {
      TILEKV_ASSIGN_OR_RETURN(options_.etcd.password, ReadPassword(options_.etcd_password_file));
    }
    for (int64_t waited_ms = 0;; waited_ms += kReachEvery_ms) {
      absl::Status reached = TryReach();
      if (reached.ok()) return reached;
      const bool no_cluster = GetReason(reached) == Reason::kNotFound;
      if ((!no_cluster && !MayPass(reached)) || wait == nullptr) return reached;
      if (waited_ms % kTellWaitingEvery_ms == 0) TellWaiting(no_cluster, reached);
      if (!wait(kReachEvery_ms)) {
        return MakeError(Reason::kCancelled, "the process was told to end while it waited");
      }
    }
  }

  const ClusterMap& map() const override { return *first_.map; }

  absl::Status Open(ObjectStore& engine, const std::string& directory, const std::string& listen,
                    const MemoryPlan& plan, std::shared_ptr<BufferPool> pool) override;

  Catalog& catalog() override { return *gated_; }
  ObjectStore& objects() override { return *objects_; }
  ClusterAdmin& admin() override { return *operator_; }
  SharedCollection& collection() override { return *collection_; }
  CopySurvey& survey() override { return *survey_; }
  PeerServiceOptions peer_service() override {
    return {.node_id = state_->node_id(),
            .objects = engine_,
            .rounds = rounds_.get(),
            .repair = answers_.get(),
            .line_id = [this] { return maps_->line_id(); }};
  }

  ClusterFigures figures() override;
  absl::Status Join() override;
  void Leave() override;

 private:
  absl::Status TryReach();
  void TellWaiting(bool no_cluster, const absl::Status& reached) const;
  JoiningNode Joining(const std::string& listen) const;
  v1::NodeRegistration Describe();
  int64_t Beat();  // returns the milliseconds until the next
  int64_t Step();
  int64_t Repair();  // likewise
  void LookAtRoom();
  void Changed(const ClusterPicture& picture);
  // From any thread, also while the node leaves.
  void Wake() {
    MutexLock lock(mutex_);
    if (stepping_ != nullptr) stepping_->Wake();
  }
  void WakeRepair() {
    MutexLock lock(mutex_);
    if (repairing_ != nullptr) repairing_->Wake();
  }
  void LookAgain() {
    if (repairer_ == nullptr) return;  // the map is read before there is one
    repairer_->LookAgain();
    WakeRepair();
  }
  void LookForNews();

  ClusterNodeOptions options_;
  // In the order of their lives.
  std::unique_ptr<EtcdCatalog> etcd_;
  std::unique_ptr<GatedCatalog> gated_;
  std::unique_ptr<MapStore> maps_;
  StoredMap first_;
  ObjectStore* engine_ = nullptr;
  JoiningNode self_;
  int64_t started_micros_ = 0;
  std::unique_ptr<ClusterFile> file_;
  std::unique_ptr<GrpcPeers> peers_;
  std::unique_ptr<ClusterState> state_;
  std::shared_ptr<ByteBudget> replica_budget_;
  std::unique_ptr<ThreadPool> executor_;
  std::unique_ptr<ClusterObjects> objects_;
  std::unique_ptr<RoundStore> round_store_;
  std::unique_ptr<NodeRounds> rounds_;
  std::unique_ptr<ClusterCollection> collection_;
  std::unique_ptr<Repairer> repairer_;
  std::unique_ptr<RepairAnswers> answers_;
  CallContext repair_context_;
  std::unique_ptr<CatalogRoom> room_;
  std::unique_ptr<ClusterOperator> operator_;
  std::unique_ptr<ClusterSurvey> survey_;
  std::unique_ptr<NodeRegistry> registry_;
  // Of the heartbeat's thread, and of repair's: how the last time went.
  absl::Status beaten_;
  absl::Status repaired_;
  // Of repair's thread: what there was when partitions were last looked at because of it.
  uint64_t seen_quarantined_ = 0;
  uint64_t seen_short_writes_ = 0;
  int64_t looked_nanos_ = 0;
  bool catalog_answers_ = true;
  Mutex mutex_;
  std::unique_ptr<PacedWork> stepping_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<PacedWork> repairing_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> here_ ABSL_GUARDED_BY(mutex_);  // nodes, with their disks
  std::unique_ptr<PacedWork> beating_;
  std::unique_ptr<PeriodicWork> looking_;
  std::unique_ptr<CatalogWatch> watch_;  // stops first
};

absl::Status EtcdClusterNode::TryReach() {
  maps_.reset();
  gated_.reset();
  TILEKV_ASSIGN_OR_RETURN(etcd_, EtcdCatalog::Open(options_.etcd));
  gated_ = std::make_unique<GatedCatalog>(*etcd_);
  // Behind the gate: what it does is tried again by itself.
  TILEKV_ASSIGN_OR_RETURN(maps_, MapStore::Open(*etcd_));
  TILEKV_ASSIGN_OR_RETURN(std::optional<StoredMap> stored, maps_->Read());
  if (!stored.has_value()) {
    return MakeError(Reason::kNotFound,
                     fmt::format("the making of cluster '{}' was not finished; 'tilekv cluster "
                                 "init' does it",
                                 options_.etcd.cluster));
  }
  first_ = *std::move(stored);
  return absl::OkStatus();
}

void EtcdClusterNode::TellWaiting(bool no_cluster, const absl::Status& reached) const {
  const std::string& cluster = options_.etcd.cluster;
  if (no_cluster) {
    LogEvent(LogLevel::kWarning, "waiting_for_cluster",
             {{"cluster", cluster}, {"error", ErrorText(reached)}});
  } else {
    LogEvent(LogLevel::kWarning, "waiting_for_etcd",
             {{"cluster", cluster}, {"error", ErrorText(reached)}});
  }
}

JoiningNode EtcdClusterNode::Joining(const std::string& listen) const {
  JoiningNode node;
  node.id = options_.node_id;
  node.store_uuid = engine_->store_uuid();
  node.host = options_.host.empty() ? MachineName() : options_.host;
  node.zone = options_.zone;
  node.weight_milli = options_.weight_milli;
  node.address = options_.advertise;
  if (!node.address.empty()) return node;
  node.address = listen;
  absl::StatusOr<ListenAddress> parsed = ListenAddress::Parse(listen);
  // Every address of the machine is none that another one can call.
  if (parsed.ok() && (parsed->host == "0.0.0.0" || parsed->host == "::")) {
    node.address = ListenAddress{MachineName(), parsed->port}.ToString();
  }
  return node;
}

absl::Status EtcdClusterNode::Open(ObjectStore& engine, const std::string& directory,
                                   const std::string& listen, const MemoryPlan& plan,
                                   std::shared_ptr<BufferPool> pool) {
  engine_ = &engine;
  self_ = Joining(listen);
  started_micros_ = Clock::System()->WallMicros();
  TILEKV_ASSIGN_OR_RETURN(self_.id, IdentifyNode(*first_.map, self_));
  TILEKV_ASSIGN_OR_RETURN(file_, ClusterFile::Open(*FileSystem::Posix(), directory));
  peers_ =
      std::make_unique<GrpcPeers>(GrpcPeersOptions{.node_id = self_.id,
                                                   .line_id = [this] { return maps_->line_id(); },
                                                   .copy_ahead_bytes = plan.copy_ahead_bytes,
                                                   .read_ahead_bytes = plan.read_ahead_bytes});
  TILEKV_ASSIGN_OR_RETURN(
      state_, ClusterState::Create(*maps_, *file_, first_,
                                   {.node_id = self_.id,
                                    .changed = [this](const auto& picture) { Changed(picture); },
                                    .notice = &NoticeOfCluster,
                                    .wake = [this] { Wake(); }}));
  replica_budget_ = std::make_shared<ByteBudget>(
      std::max(plan.copy_ahead_bytes, kLeastReplicaChunks * kTransferChunkBytes));
  executor_ = std::make_unique<ThreadPool>("cluster", kClusterThreads);
  ClusterObjectsOptions objects;
  objects.executor = executor_.get();
  objects.replica_budget = replica_budget_;
  objects.pool = pool;
  objects_ = std::make_unique<ClusterObjects>(engine, *peers_, *state_, objects);
  TILEKV_ASSIGN_OR_RETURN(
      round_store_,
      RoundStore::Open(*FileSystem::Posix(), directory + "/" + kRoundsFolder, &NoticeOfCluster));
  rounds_ = std::make_unique<NodeRounds>(*round_store_, engine, *gated_,
                                         [this] { return maps_->line_id(); });
  ClusterCollectionOptions collection;
  collection.executor = executor_.get();
  collection_ =
      std::make_unique<ClusterCollection>(*gated_, *rounds_, *peers_, *state_, collection);
  RepairerOptions repair;
  repair.executor = executor_.get();
  repair.pull_budget = std::make_shared<ByteBudget>(plan.pull_bytes);
  repair.pool = std::move(pool);
  repair.refusals = rounds_.get();
  repairer_ = std::make_unique<Repairer>(engine, *peers_, *state_, repair);
  answers_ = std::make_unique<RepairAnswers>(engine, *state_, repairer_->wanted(), rounds_.get(),
                                             *Clock::System());
  repair_context_.cancel = std::make_shared<CancelToken>();
  room_ = std::make_unique<CatalogRoom>(options_.etcd_quota_bytes, &NoticeOfCluster);
  LookAtRoom();
  operator_ = std::make_unique<ClusterOperator>(*maps_, *state_, *room_, *Clock::System());
  survey_ = std::make_unique<ClusterSurvey>(engine, *peers_, *state_, operator_.get(), *executor_);
  NodeRegistryOptions registry;
  registry.node_id = self_.id;
  registry_ =
      std::make_unique<NodeRegistry>(*etcd_, *file_, registry, [this] { return Describe(); });
  return absl::OkStatus();
}

absl::Status EtcdClusterNode::Join() {
  TILEKV_ASSIGN_OR_RETURN(StoredMap joined, JoinCluster(*maps_, self_));
  for (const MapNode& other : joined.map->nodes()) {
    if (other.id == self_.id || other.address != self_.address) continue;
    NoticeOfCluster(
        fmt::format("node '{}' is at {} too, as the cluster has it: where both are "
                    "there, pass --advertise, so that others find each of them",
                    other.id, Printable(other.address)));
  }
  state_->OnMap(joined);
  state_->Step();
  TILEKV_RETURN_IF_ERROR(registry_->Beat());
  LogEvent(LogLevel::kInfo, "joined",
           {{"cluster", joined.map->cluster_name()},
            {"node", self_.id},
            {"address", self_.address},
            {"map_version", fmt::format("{}", joined.map->version().number())},
            {"nodes", fmt::format("{}", joined.map->nodes().size())}});
  {
    MutexLock lock(mutex_);
    stepping_ = std::make_unique<PacedWork>(0, [this] { return Step(); });
    repairing_ = std::make_unique<PacedWork>(0, [this] { return Repair(); });
  }
  const KeyRange range = ClusterRange();
  watch_ = etcd_->Watch(range.start, range.end,
                        [this](const CatalogUpdate& update) { state_->OnUpdate(update); });
  beating_ = std::make_unique<PacedWork>(kHeartbeatEvery_ms, [this] { return Beat(); });
  looking_ = std::make_unique<PeriodicWork>(kEtcdLookEvery_s * 1'000, [this] { LookAtRoom(); });
  return absl::OkStatus();
}

void EtcdClusterNode::Leave() {
  watch_.reset();
  looking_.reset();
  beating_.reset();
  std::unique_ptr<PacedWork> stepping;
  std::unique_ptr<PacedWork> repairing;
  {
    MutexLock lock(mutex_);
    stepping = std::move(stepping_);
    repairing = std::move(repairing_);
  }
  if (repair_context_.cancel != nullptr) repair_context_.cancel->Cancel();
  repairing.reset();
  stepping.reset();  // waits for a step, which may wake
  if (registry_ == nullptr) return;
  if (absl::Status left = registry_->Leave(); !left.ok()) {
    LogEvent(LogLevel::kWarning, "not_deregistered", {{"error", ErrorText(left)}});
  }
}

v1::NodeRegistration EtcdClusterNode::Describe() {
  v1::NodeRegistration now;
  now.set_store_uuid(self_.store_uuid);
  now.set_address(self_.address);
  now.set_version(TILEKV_VERSION);
  now.set_feature_level(kFeatureLevel);
  now.set_started_micros(started_micros_);
  now.set_map_version(state_->placement()->map().version().value);
  now.set_health(!engine_->CheckWritable(0).ok()   ? v1::NODE_HEALTH_FAILED
                 : !engine_->CheckWritable(1).ok() ? v1::NODE_HEALTH_FULL
                                                   : v1::NODE_HEALTH_GOOD);
  if (absl::StatusOr<StoreUsage> usage = engine_->Usage(); usage.ok()) {
    now.set_objects(usage->objects);
    now.set_stored_bytes(usage->stored_bytes);
    now.set_disk_total_bytes(usage->disk_total_bytes);
    now.set_disk_available_bytes(usage->disk_available_bytes);
  }
  *now.mutable_repair() = RepairStatusOf(repairer_->progress());
  return now;
}

// What this node's repair would else find by its next survey, minutes from now.
void EtcdClusterNode::LookForNews() {
  const int64_t now_nanos = Clock::System()->MonotonicNanos();
  if (now_nanos - looked_nanos_ < kLookAgainEvery_ms * kNanosPerMilli) return;
  looked_nanos_ = now_nanos;
  const absl::StatusOr<StoreUsage> usage = engine_->Usage();
  const uint64_t quarantined = usage.ok() ? usage->quarantined_objects : seen_quarantined_;
  const uint64_t short_writes = objects_->counters().short_writes;
  if (quarantined > seen_quarantined_ || short_writes > seen_short_writes_) repairer_->LookAgain();
  seen_quarantined_ = quarantined;
  seen_short_writes_ = short_writes;
}

int64_t EtcdClusterNode::Repair() {
  LookForNews();
  absl::StatusOr<int64_t> wait_micros = repairer_->Step(repair_context_);
  if (repair_context_.cancelled()) return kRepairAfterError_ms;  // the node leaves
  if (!wait_micros.ok() && repaired_.ok()) {
    LogEvent(LogLevel::kError, "repair_failed", {{"error", ErrorText(wait_micros.status())}});
  } else if (wait_micros.ok() && !repaired_.ok()) {
    LogEvent(LogLevel::kInfo, "repair_again");
  }
  repaired_ = wait_micros.status();
  return wait_micros.ok() ? (*wait_micros + kMicrosPerMilli - 1) / kMicrosPerMilli
                          : kRepairAfterError_ms;
}

int64_t EtcdClusterNode::Beat() {
  const int64_t leases = registry_->leases();
  absl::Status beaten = registry_->Beat();
  if (beaten.ok() && !beaten_.ok()) {
    LogEvent(LogLevel::kInfo, "heartbeat_again");
  } else if (beaten.ok() && registry_->leases() != leases) {
    LogEvent(LogLevel::kWarning, "registered_again");
    LookAgain();  // of what was written meanwhile
  } else if (!beaten.ok() && beaten_.ok()) {
    LogEvent(LogLevel::kError, "heartbeat_failed", {{"error", ErrorText(beaten)}});
  }
  beaten_ = beaten;
  // Where it is the disk that fails, nothing was asked of the catalog.
  const absl::Status answered =
      beaten.ok() || MayPass(beaten) ? beaten : etcd_->CurrentRevision().status();
  gated_->Answered(answered);
  const bool answers = !MayPass(answered);
  if (answers != catalog_answers_) {
    catalog_answers_ = answers;
    answers ? state_->OnCatalogAnswers() : state_->OnCatalogLost();
  }
  return answers ? kHeartbeatEvery_ms : kKnockEvery_ms;
}

int64_t EtcdClusterNode::Step() {
  const std::optional<int64_t> at_nanos = state_->Step();
  if (!at_nanos.has_value()) return kDefaultOutAfter_s * 1'000;
  const int64_t left_ms = (*at_nanos - Clock::System()->MonotonicNanos()) / kNanosPerMilli;
  return std::max<int64_t>(0, left_ms) + 1;
}

ClusterFigures EtcdClusterNode::figures() {
  const std::shared_ptr<const ClusterPicture> picture = state_->picture();
  ClusterFigures figures;
  for (const MapNode& node : picture->map().nodes()) {
    ++figures.nodes;
    figures.nodes_away += !picture->registered.contains(node.id);
  }
  figures.map_version = picture->map().version().number();
  figures.catalog_answers = picture->catalog_answers;
  figures.catalog_quota_bytes = room_->quota_bytes();
  if (absl::StatusOr<CatalogFigures> catalog = room_->figures(); catalog.ok()) {
    figures.catalog_bytes = catalog->database_bytes;
  }
  const ClusterCounters& counters = objects_->counters();
  figures.short_writes = counters.short_writes;
  figures.refused_writes = counters.refused_writes;
  figures.failed_copies = counters.failed_copies;
  figures.peer_reads = counters.peer_reads;
  figures.hedged_reads = counters.hedged_reads;
  figures.swept_objects = rounds_->counters().deleted_objects;
  figures.swept_bytes = rounds_->counters().deleted_bytes;
  const RepairCounters& repair = repairer_->counters();
  figures.pulled_objects = repair.pulled_objects;
  figures.pulled_bytes = repair.pulled_bytes;
  figures.failed_pulls = repair.failed_pulls;
  figures.dropped_objects = repair.dropped_objects;
  const RepairProgress progress = repairer_->progress();
  figures.repair_objects_left = progress.objects_to_pull;
  figures.repair_bytes_left = progress.bytes_to_pull;
  figures.repair_missing_objects = progress.missing_objects;
  figures.repair_waiting_s = progress.waiting_s;
  return figures;
}

void EtcdClusterNode::LookAtRoom() {
  absl::StatusOr<EtcdStatus> status = etcd_->Status();
  if (!status.ok()) return room_->Look(status.status());
  room_->Look(CatalogFigures{.version = status->version,
                             .database_bytes = status->database_bytes,
                             .in_use_bytes = status->in_use_bytes});
}

void EtcdClusterNode::Changed(const ClusterPicture& picture) {
  std::vector<PeerAddress> nodes;
  for (const MapNode& node : picture.map().nodes()) {
    PeerAddress& peer = nodes.emplace_back();
    peer.node_id = node.id;
    peer.address = node.address;
    auto found = picture.registered.find(node.id);
    // One that is there with another disk is not the node of the map.
    peer.registered =
        found != picture.registered.end() && found->second.store_uuid() == node.store_uuid;
    if (peer.registered) peer.address = found->second.address();
  }
  peers_->Update(nodes);
  std::set<std::string> here;
  for (const PeerAddress& node : nodes) {
    if (node.registered) here.insert(node.node_id);
  }
  bool somebody_is_back = false;
  {
    MutexLock lock(mutex_);
    somebody_is_back = !std::includes(here_.begin(), here_.end(), here.begin(), here.end());
    here_ = std::move(here);
  }
  somebody_is_back ? LookAgain() : WakeRepair();  // the map may have new owners
}

}  // namespace

absl::Status CheckClusterOptions(const ClusterNodeOptions& options) {
  const auto bad = [](std::string text) {
    return MakeError(Reason::kInvalidArgument, std::move(text));
  };
  if (!options.is_set()) {
    const bool none = options.etcd.cluster.empty() && options.node_id.empty() &&
                      options.advertise.empty() && options.host.empty() && options.zone.empty();
    if (none) return absl::OkStatus();
    return bad("--etcd is missing: a node of a cluster is told where etcd is");
  }
  if (options.etcd.cluster.empty()) {
    return bad("--cluster is missing: the name that 'tilekv cluster init' was given");
  }
  TILEKV_RETURN_IF_ERROR(CheckClusterName(options.etcd.cluster));
  TILEKV_RETURN_IF_ERROR(ParseEtcdEndpoints(options.etcd.endpoints).status());
  if (options.etcd.user.empty() != options.etcd_password_file.empty()) {
    return bad("--etcd-user and --etcd-password-file belong together");
  }
  if (options.etcd.cert_file.empty() != options.etcd.key_file.empty()) {
    return bad("--etcd-cert and --etcd-key belong together");
  }
  if (options.advertise.empty()) return absl::OkStatus();
  absl::StatusOr<ListenAddress> address = ListenAddress::Parse(options.advertise);
  if (!address.ok()) return WithContext(address.status(), "--advertise");
  if (address->port == 0) return bad("--advertise needs the port that others call");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ClusterNode>> ClusterNode::Reach(const ClusterNodeOptions& options,
                                                                const WaitFunction& wait) {
  auto node = std::make_unique<EtcdClusterNode>(options);
  TILEKV_RETURN_IF_ERROR(node->Reach(wait));
  return node;
}

}  // namespace tilekv
