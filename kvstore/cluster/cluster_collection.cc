#include "kvstore/cluster/cluster_collection.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/cluster/cluster_errors.h"
#include "kvstore/cluster/concurrently.h"
#include "kvstore/cluster/round_lists.h"

namespace tilekv {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
// How often a node is told that does not answer.
constexpr int kTries = 2;

// What all nodes of a round have in common.
class SharedRound {
 public:
  SharedRound(Domain domain, const RoundName& name, const LiveList& live, bool dry_run,
              uint64_t part_bytes, SharedCollection::Turn* turn, const CallContext& context)
      : domain(domain),
        name(name),
        live(live),
        dry_run(dry_run),
        part_bytes(part_bytes),
        context(context),
        turn_(turn) {}

  const Domain domain;
  const RoundName& name;
  const LiveList& live;
  const bool dry_run;
  const uint64_t part_bytes;
  const CallContext& context;

  // Between any two calls. An error ends the round at all nodes.
  absl::Status GoOn() {
    MutexLock lock(mutex_);
    if (ended_.ok()) ended_ = context.Check();
    if (ended_.ok() && turn_ != nullptr) ended_ = turn_->Renew();
    return ended_;
  }
  void End(const absl::Status& why) {
    MutexLock lock(mutex_);
    if (ended_.ok()) ended_ = why;
  }

 private:
  SharedCollection::Turn* const turn_;
  Mutex mutex_;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

class ClusterCollection::LeasedTurn : public SharedCollection::Turn {
 public:
  LeasedTurn(Catalog& catalog, Clock& clock, LeaseId lease)
      : catalog_(catalog), clock_(clock), lease_(lease), renewed_nanos_(clock.MonotonicNanos()) {}
  // If this fails its time ends it.
  ~LeasedTurn() override { catalog_.Revoke(lease_).IgnoreError(); }

  absl::Status Renew() override {
    MutexLock lock(mutex_);
    const int64_t now_nanos = clock_.MonotonicNanos();
    if (now_nanos - renewed_nanos_ < kCollectorLease_s * kNanosPerSecond / 4) {
      return absl::OkStatus();
    }
    TILEKV_ASSIGN_OR_RETURN(bool alive, catalog_.KeepAlive(lease_, kCollectorLease_s));
    if (!alive) {
      return MakeError(Reason::kOverloaded,
                       fmt::format("the round stood still for more than {} s, and is no more this "
                                   "node's; try again",
                                   kCollectorLease_s));
    }
    renewed_nanos_ = now_nanos;
    return absl::OkStatus();
  }

 private:
  Catalog& catalog_;
  Clock& clock_;
  const LeaseId lease_;
  Mutex mutex_;
  int64_t renewed_nanos_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<SharedCollection::Turn>> ClusterCollection::TakeTurn() {
  v1::CollectorRecord record;
  record.set_node(view_.node_id());
  record.set_since_micros(options_.clock->WallMicros());
  TILEKV_ASSIGN_OR_RETURN(LeaseId lease, catalog_.Grant(kCollectorLease_s));
  // Gives the lease back whatever happens.
  auto turn = std::make_unique<LeasedTurn>(catalog_, *options_.clock, lease);
  TILEKV_ASSIGN_OR_RETURN(TxnResult result,
                          catalog_.Txn({.compares = {Compare::Absent(kCollectorKey)},
                                        .writes = {CatalogWrite::Put(
                                            kCollectorKey, record.SerializeAsString(), lease)}}));
  if (result.applied) return turn;
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, catalog_.Get(kCollectorKey));
  if (!entry || !record.ParseFromString(entry->value)) record.set_node("another one");
  return MakeError(Reason::kOverloaded,
                   fmt::format("node '{}' is collecting for the cluster; try again after it",
                               Printable(record.node())));
}

// One node of the map in a round. For one thread at a time.
class ClusterCollection::RoundOfNode {
 public:
  RoundOfNode(ClusterCollection& collection, const Placement& placement, NodeIndex index)
      : collection_(collection), placement_(placement), index_(index) {}

  // Goes on from where an earlier call ended.
  void Run(SharedRound& round) {
    status_ = Work(round);
    if (GetReason(status_) == Reason::kVersionConflict) round.End(status_);
  }

  const std::string& id() const { return placement_.map().nodes()[index_].id; }
  const absl::Status& status() const { return status_; }
  const SweepAnswer& sum() const { return sum_; }

 private:
  absl::Status Work(SharedRound& round) {
    TILEKV_RETURN_IF_ERROR(round.GoOn());
    std::shared_ptr<Peer> other;
    RoundPeer* peer = &collection_.own_;
    if (id() != collection_.view_.node_id()) {
      TILEKV_ASSIGN_OR_RETURN(other, FindPeer(collection_.peers_, id()));
      peer = other.get();
    }
    if (!wanted_.has_value()) TILEKV_RETURN_IF_ERROR(FindWanted(*peer, round));
    TILEKV_RETURN_IF_ERROR(GiveLists(*peer, round));
    return round.dry_run ? absl::OkStatus() : SweepAll(*peer, round);
  }

  absl::Status FindWanted(RoundPeer& peer, SharedRound& round) {
    const uint32_t bits = placement_.map().settings().partition_bits;
    TILEKV_ASSIGN_OR_RETURN(std::vector<bool> wanted,
                            peer.HeldPartitions(round.domain, bits, round.context));
    if (wanted.size() != placement_.partitions()) {
      return MakeError(Reason::kInternal, "it told of another number of partitions");
    }
    for (uint32_t partition = 0; partition < wanted.size(); ++partition) {
      if (placement_.OwnersOf(partition).Contains(index_)) wanted[partition] = true;
    }
    wanted_ = std::move(wanted);
    return absl::OkStatus();
  }

  absl::Status GiveLists(RoundPeer& peer, SharedRound& round) {
    const uint32_t bits = placement_.map().settings().partition_bits;
    RoundLists lists(round.live, *wanted_, bits, round.part_bytes);
    for (size_t number = 0;; ++number) {
      TILEKV_RETURN_IF_ERROR(round.GoOn());
      TILEKV_ASSIGN_OR_RETURN(std::optional<RoundPart> part, lists.Next());
      if (!part.has_value()) return absl::OkStatus();
      if (number < given_) continue;
      part->domain = round.domain;
      part->round = round.name;
      if (round.dry_run) {
        TILEKV_ASSIGN_OR_RETURN(SweepAnswer answer, peer.CountGarbage(*part, round.context));
        Add(answer);
      } else {
        TILEKV_RETURN_IF_ERROR(peer.StoreRoundPart(*part, round.context));
      }
      ++given_;
    }
  }

  absl::Status SweepAll(RoundPeer& peer, SharedRound& round) {
    while (!swept_) {
      TILEKV_RETURN_IF_ERROR(round.GoOn());
      TILEKV_ASSIGN_OR_RETURN(SweepAnswer answer,
                              peer.SweepRound(round.domain, round.name, after_, round.context));
      Add(answer);
      after_ = answer.next_after;
      swept_ = !after_.has_value();
    }
    return absl::OkStatus();
  }

  void Add(const SweepAnswer& answer) {
    sum_.deleted_objects += answer.deleted_objects;
    sum_.deleted_bytes += answer.deleted_bytes;
    sum_.kept_objects += answer.kept_objects;
  }

  ClusterCollection& collection_;
  const Placement& placement_;
  const NodeIndex index_;
  std::optional<std::vector<bool>> wanted_;  // partitions
  size_t given_ = 0;                         // parts
  std::optional<ObjectId> after_;
  bool swept_ = false;
  SweepAnswer sum_;
  absl::Status status_;
};

absl::Status ClusterCollection::Sweep(Domain domain, const RoundName& name, const LiveList& live,
                                      Turn* turn, v1::CollectResponse& response,
                                      const CallContext& context) {
  const bool dry_run = turn == nullptr;
  SharedRound round(domain, name, live, dry_run, options_.part_bytes, turn, context);
  const std::shared_ptr<const Placement> placement = view_.placement();
  std::vector<std::unique_ptr<RoundOfNode>> nodes;
  for (size_t i = 0; i < placement->map().nodes().size(); ++i) {
    nodes.push_back(std::make_unique<RoundOfNode>(*this, *placement, static_cast<NodeIndex>(i)));
  }
  std::vector<RoundOfNode*> left;
  for (auto& node : nodes) left.push_back(node.get());
  for (int tries = 0; tries < kTries; ++tries) {
    for (size_t begin = 0; begin < left.size(); begin += kRoundNodes) {
      std::vector<std::function<void()>> work;
      for (size_t i = begin; i < std::min(begin + kRoundNodes, left.size()); ++i) {
        work.push_back([node = left[i], &round] { node->Run(round); });
      }
      RunConcurrently(*options_.executor, std::move(work));
      TILEKV_RETURN_IF_ERROR(round.GoOn());
    }
    std::erase_if(left, [](const RoundOfNode* node) { return node->status().ok(); });
  }
  for (const auto& node : nodes) {
    const SweepAnswer& sum = node->sum();
    response.set_deleted_objects(response.deleted_objects() + sum.deleted_objects);
    response.set_deleted_bytes(response.deleted_bytes() + sum.deleted_bytes);
    response.set_kept_by_sessions(response.kept_by_sessions() + sum.kept_objects);
  }
  for (const RoundOfNode* node : left) {
    response.add_not_reached(fmt::format("{}: {}", node->id(), ErrorText(node->status())));
  }
  return absl::OkStatus();
}

}  // namespace tilekv
