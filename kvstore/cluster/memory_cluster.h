// A cluster in memory, for tests: nodes with stores of their own, and a network between them that
// refuses, cuts, stands still or lies as a test wants it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kvstore/base/byte_budget.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/random.h"
#include "kvstore/cluster/cluster_objects.h"
#include "kvstore/cluster/node_rounds.h"
#include "kvstore/cluster/repair_answers.h"
#include "kvstore/object/memory_object_store.h"
#include "kvstore/placement/cluster_map.h"
#include "kvstore/placement/placement.h"

namespace tilekv {

// A gate at which a node's answers stand until it is opened.
class Gate {
 public:
  void Pass() {
    MutexLock lock(mutex_);
    while (!open_) opened_.Wait(mutex_);
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    opened_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar opened_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

// What is wrong with a node, seen from the others. Set before the call that is to meet it.
struct NodeFaults {
  std::atomic<bool> down{false};          // every call: NODE_UNAVAILABLE
  std::atomic<bool> unlikely{false};      // the hint says that it will not answer
  std::atomic<bool> no_address{false};    // nobody knows where it is
  std::atomic<bool> full{false};          // STORE_FULL
  std::atomic<bool> stands_still{false};  // copies: kCopyStall_ms pass, then NODE_UNAVAILABLE
  std::atomic<bool> session_lost{false};
  std::atomic<bool> answers_old{false};               // with a revision below the one it was sent
  std::atomic<uint64_t> cut_after_bytes{UINT64_MAX};  // of each copy, either way
  // In the thread that asks it; may block.
  std::function<void()> before_link;
  std::function<void()> before_open;
  std::function<void()> before_read;
  std::function<void()> before_confirm;  // of drops
  std::function<void()> after_confirm;   // while the answer is on its way
  std::function<void()> before_round_part;
  std::string store_uuid;  // that it names instead of its own
};

// What a node was asked.
struct NodeLog {
  std::atomic<int> links{0};
  std::atomic<int> copies{0};   // that were sent to it
  std::atomic<int> opens{0};    // of its copies
  std::atomic<int> damages{0};  // that were reported to it
  std::atomic<int> lists{0};    // pages of its partitions
  std::atomic<int> offers{0};
  std::atomic<int> confirms{0};
  // Copies that were read of it or sent to it and let go in `watched`.
  std::thread::id watched;
  std::atomic<int> let_go_there{0};
  std::atomic<uint64_t> read_bytes{0};  // of its copies
  std::atomic<int> jumps{0};            // reads that did not go on where the one before ended

  // Where the bytes lay that it was sent.
  void AddPiece(const uint8_t* at) {
    MutexLock lock(mutex);
    sent.push_back(at);
  }
  std::vector<const uint8_t*> pieces() {
    MutexLock lock(mutex);
    return sent;
  }
  Mutex mutex;
  std::vector<const uint8_t*> sent ABSL_GUARDED_BY(mutex);
};

// A node's disk, for itself and for the others.
class TestStore : public MemoryObjectStore {
 public:
  using MemoryObjectStore::MemoryObjectStore;
  absl::StatusOr<std::unique_ptr<ObjectWriter>> NewWriter(const PutSpec& spec) override;
  absl::StatusOr<std::shared_ptr<ObjectReader>> Open(Domain domain, const ObjectId& id) override;
  absl::Status CheckWritable(uint64_t bytes) override;

  std::atomic<bool> full{false};        // STORE_FULL
  std::atomic<bool> unreadable{false};  // its copies open, and are not read
};

class MemoryCluster;
struct MemoryNode;

// The cluster as one node sees it: the others over the network, and the newest map that it was
// told.
class NodeOutlook : public Peers, public ClusterView {
 public:
  NodeOutlook(MemoryCluster& cluster, const std::string& node_id)
      : cluster_(cluster), node_id_(node_id) {}
  std::shared_ptr<Peer> Find(std::string_view node_id) override;
  bool IsLikelyUp(std::string_view node_id) override;
  const std::string& node_id() const override { return node_id_; }
  std::shared_ptr<const Placement> placement() override;
  void Tell(std::shared_ptr<const Placement> placement);

 private:
  MemoryCluster& cluster_;
  const std::string node_id_;
  Mutex mutex_;
  std::shared_ptr<const Placement> placement_ ABSL_GUARDED_BY(mutex_);
};

// What a node was offered and lacks: noted here, or by who repairs it.
class NotedCopies : public WantedCopies {
 public:
  struct Noted {
    TouchedRef wanted;
    std::string holder;
  };
  bool Want(Domain domain, const TouchedRef& wanted, std::string_view holder) override;
  std::vector<Noted> noted();

  std::atomic<size_t> room{SIZE_MAX};
  WantedCopies* repairer = nullptr;

 private:
  Mutex mutex_;
  std::vector<Noted> noted_ ABSL_GUARDED_BY(mutex_);
};

// By the lists of whoever answers for the node in the collector's rounds, if anybody does.
class NodeRefusals : public CopyRefusals {
 public:
  absl::StatusOr<std::optional<CopyRefusal>> RefusalOf(Domain domain, const ObjectId& id,
                                                       Revision touched_rev) override;
  absl::Status Confirm(const CopyRefusal& refusal) override;

  CopyRefusals* lists = nullptr;
};

struct MemoryNode {
  std::string id;
  std::unique_ptr<TestStore> store;
  std::unique_ptr<NodeOutlook> outlook;
  NotedCopies wanted;
  NodeRefusals refusals;
  std::unique_ptr<RepairAnswers> answers;
  NodeRounds* rounds = nullptr;  // that answers for it in the collector's rounds; null: nobody
  NodeFaults faults;
  NodeLog log;
};

struct MemoryClusterOptions {
  std::vector<std::string> nodes = {"a", "b", "c"};  // the first is the one under test
  std::map<std::string, NodeState> states;           // of those that are not in
  ClusterSettings settings;
  Executor* executor = nullptr;  // none: the caller
  uint64_t replica_budget_bytes = 64 * kMiB;
  uint64_t max_object_bytes = 8 * kMiB;
  int64_t hedge_after_ms = 60'000;  // never, in a test
  int64_t late_after_ms = 60'000;   // likewise
};

class MemoryCluster {
 public:
  explicit MemoryCluster(const MemoryClusterOptions& options = {});
  ~MemoryCluster();

  ClusterObjects& objects() { return *objects_; }  // of the first node
  MemoryNode& node(std::string_view id);
  MemoryNode& self() { return *nodes_.front(); }
  ByteBudget& budget() { return *budget_; }
  ManualClock& clock() { return clock_; }

  // A newer map, with these nodes in states of their own, and the others in; told to all nodes.
  void SetMap(const std::map<std::string, NodeState>& states);
  // The same, told to nobody yet.
  void MakeMap(const std::map<std::string, NodeState>& states);
  void TellMap(std::string_view node);
  const std::vector<std::unique_ptr<MemoryNode>>& nodes() { return nodes_; }
  std::shared_ptr<const Placement> placement();  // of the newest map
  // Ids of all nodes, the owners first, then by rank.
  std::vector<std::string> OrderOf(const ObjectId& id);
  // Content of 8 bytes at least, for which `fits` holds of the order of its blob's id.
  std::string ContentFor(uint64_t length,
                         const std::function<bool(const std::vector<std::string>&)>& fits);
  // Puts it at the node itself, past the cluster.
  ObjectRef PutAt(std::string_view node, std::string_view content, Revision touched_rev = {1},
                  const Encoding& encoding = {});
  // Ids of the nodes whose own disks hold a good copy with at least that revision, in order.
  std::string Holders(const ObjectId& id, Revision least = {});

 private:
  std::shared_ptr<const ClusterMap> FirstMap() const;

  MemoryClusterOptions options_;
  ManualClock clock_;
  SeededRandom random_{7};
  InlineExecutor inline_;
  const std::shared_ptr<ByteBudget> budget_;
  std::vector<std::unique_ptr<MemoryNode>> nodes_;
  Mutex mutex_;
  std::shared_ptr<const Placement> placement_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ClusterObjects> objects_;
};

}  // namespace tilekv
