// For tests: a cluster in memory whose nodes repair, step by step, on a clock that the test moves.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/base/executor.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/memory_cluster.h"
#include "kvstore/cluster/repairer.h"

namespace tilekv {

inline MemoryClusterOptions RepairedCluster(std::vector<std::string> nodes,
                                            std::map<std::string, NodeState> states = {},
                                            uint32_t partition_bits = 4) {
  MemoryClusterOptions options{.nodes = std::move(nodes), .states = std::move(states)};
  options.settings.partition_bits = partition_bits;
  return options;
}

class RepairingCluster {
 public:
  static constexpr uint64_t kBudgetBytes = 4 * kMiB;

  // `options.executor` is that of the repairers too; none: the caller.
  explicit RepairingCluster(const MemoryClusterOptions& options,
                            size_t list_objects = kMaxRepairList)
      : cluster(options) {
    executor_ = options.executor == nullptr ? &inline_ : options.executor;
    list_objects_ = list_objects;
    for (const auto& node : cluster.nodes()) {
      budgets_[node->id] = std::make_shared<ByteBudget>(kBudgetBytes);
      Restart(node->id);
    }
  }

  // Its repair begins anew.
  void Restart(const std::string& id) {
    MemoryNode& node = cluster.node(id);
    auto repairer = std::make_unique<Repairer>(*node.store, *node.outlook, *node.outlook,
                                               RepairerOptions{.executor = executor_,
                                                               .pull_budget = budgets_[id],
                                                               .pool = BufferPool::Create(4 * kMiB),
                                                               .refusals = &node.refusals,
                                                               .clock = &cluster.clock(),
                                                               .list_objects = list_objects_});
    node.wanted.repairer = &repairer->wanted();
    repairers_[id] = std::move(repairer);
  }

  Repairer& at(std::string_view node) { return *repairers_.find(node)->second; }
  ByteBudget& budget(const std::string& node) { return *budgets_[node]; }

  // One step of one node; how long it wants to wait.
  int64_t StepOf(std::string_view node) {
    absl::StatusOr<int64_t> wait_micros = at(node).Step();
    TILEKV_CHECK(wait_micros.ok());
    return *wait_micros;
  }
  // One step of every node that is not down; then the clock goes on until the first of them wants
  // the next one.
  void Step() {
    int64_t wait_micros = 1'000'000;
    for (const auto& node : cluster.nodes()) {
      if (!node->faults.down) wait_micros = std::min(wait_micros, StepOf(node->id));
    }
    cluster.clock().Advance(std::max<int64_t>(wait_micros, 1'000));
  }
  // False: it has not come to that within so many seconds of the clock.
  bool RunUntil(const std::function<bool()>& done, int64_t most_s = 3'600) {
    const int64_t until_nanos = cluster.clock().MonotonicNanos() + most_s * 1'000'000'000;
    while (!done()) {
      if (cluster.clock().MonotonicNanos() > until_nanos) return false;
      Step();
    }
    return true;
  }
  void RunFor(int64_t seconds) {
    RunUntil([] { return false; }, seconds);
  }
  // Every node is up and has nothing left to do.
  bool IsQuiet() {
    return std::all_of(cluster.nodes().begin(), cluster.nodes().end(), [this](const auto& node) {
      const RepairProgress progress = at(node->id).progress();
      return progress.placement == cluster.placement()->map().placement_version() &&
             progress.complete && progress.objects_to_pull == 0 && progress.foreign_partitions == 0;
    });
  }

  // Runs until every node has begun and ended a survey from now on, and is quiet.
  bool RunUntilQuiet() {
    std::map<std::string, uint64_t> surveys;
    for (const auto& node : cluster.nodes()) {
      surveys[node->id] = at(node->id).counters().surveys + 2;
    }
    return RunUntil([&] {
      return IsQuiet() && std::all_of(surveys.begin(), surveys.end(), [this](const auto& least) {
               return at(least.first).counters().surveys >= least.second;
             });
    });
  }

  // The owners of an object, as Holders() names nodes.
  std::string OwnersOf(const ObjectId& id) {
    const auto placement = cluster.placement();
    std::vector<std::string> owners;
    for (NodeIndex owner : placement->OwnersOf(placement->PartitionOf(id))) {
      owners.push_back(placement->map().nodes()[owner].id);
    }
    std::sort(owners.begin(), owners.end());
    std::string text;
    for (const std::string& owner : owners) text += owner;
    return text;
  }
  // Puts it at each of its owners.
  ObjectRef PutAtOwners(std::string_view content, Revision touched_rev = {1}) {
    const ObjectRef ref = RefOf(0, AsBytes(content));
    for (char owner : OwnersOf(ref.id)) cluster.PutAt(std::string(1, owner), content, touched_rev);
    return ref;
  }
  std::vector<ObjectRef> PutMany(int count, const std::string& name = "object ") {
    std::vector<ObjectRef> refs;
    for (int i = 0; i < count; ++i) refs.push_back(PutAtOwners(name + std::to_string(i)));
    return refs;
  }
  // A new disk.
  void Wipe(std::string_view node) {
    std::vector<ObjectId> ids;
    TestStore& store = *cluster.node(node).store;
    TILEKV_CHECK(store
                     .Scan(kDefaultDomain, std::nullopt,
                           [&ids](const ObjectRow& row) {
                             ids.push_back(row.ref.id);
                             return true;
                           })
                     .ok());
    TILEKV_CHECK(store.DeleteAllBelow(kDefaultDomain, ids, {UINT64_MAX}).ok());
  }
  uint64_t CountAt(std::string_view node) { return cluster.node(node).store->Usage()->objects; }
  // Of these, how many stand at their owners, all good and with one revision, and nowhere else.
  size_t CountSettled(const std::vector<ObjectRef>& refs) {
    return static_cast<size_t>(std::count_if(refs.begin(), refs.end(), [this](const auto& ref) {
      std::string at;
      std::vector<Revision> revs;
      for (const auto& node : cluster.nodes()) {
        const auto row = *node->store->Stat(kDefaultDomain, ref.id);
        if (!row.has_value()) continue;
        at += row->state == RowState::kGood ? node->id : "?";
        revs.push_back(row->touched_rev);
      }
      return at == OwnersOf(ref.id) && std::count(revs.begin(), revs.end(), revs.front()) ==
                                           static_cast<std::ptrdiff_t>(revs.size());
    }));
  }

  MemoryCluster cluster;

 private:
  InlineExecutor inline_;
  Executor* executor_ = nullptr;
  size_t list_objects_ = 0;
  std::map<std::string, std::shared_ptr<ByteBudget>, std::less<>> budgets_;
  std::map<std::string, std::unique_ptr<Repairer>, std::less<>> repairers_;
};

}  // namespace tilekv
