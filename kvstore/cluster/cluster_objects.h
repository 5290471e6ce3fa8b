// The objects of a cluster, as one store: what a node's commit, values and models work on. Another
// node's calls are served from that node's own disk, never from here.
//
// - A write is a star. The bytes go to this node's disk and to the other owners at once, each of
//   which verifies them by itself; a copy that fails or stands still for kCopyStall_ms is given up,
//   and the next node of the order gets the object afterwards, from a copy that is whole. A node
//   that is no owner passes the bytes on, and keeps a copy only where too few others take one.
//   Content of unknown hash is held here until it has a name.
// - Copies are counted by store, as the stores name themselves. Fewer than the map's min_copies:
//   TOO_FEW_COPIES. Fewer than its replication: success, which counters() tells. Nodes that are not
//   likely to answer are asked only for the minimum's sake.
// - Link answers `present` for what so many stores hold, and mends on its way: where fewer than
//   `replication` hold an object that some do, others get it from them.
// - A read takes this node's good copy, else the owners', else that of any node in the map. A copy
//   that breaks off, stands still or is damaged is left for the next one in the middle of a read.
//   NOT_FOUND only if every node has said so, otherwise NODE_UNAVAILABLE names who has not.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/random.h"
#include "kvstore/cluster/cluster_view.h"
#include "kvstore/cluster/peer.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

struct ClusterObjectsOptions {
  // Where several nodes are waited for at once; who waits works too, so that a busy or small
  // executor makes calls slower and never stops them. What it still runs when the last reader and
  // writer are gone touches peers, pool and open copies only: it is stopped before they, and the
  // local store, go.
  Executor* executor = nullptr;
  // Of bytes on their way to other nodes: one copy of them for all nodes that get them. Held by
  // what is on its way, which may outlive everything else here.
  std::shared_ptr<ByteBudget> replica_budget;
  std::shared_ptr<BufferPool> pool;
  Clock* clock = Clock::System();
  Random* random = Random::System();
  // A read of which nothing came for so long, and up to half as long again, is asked of another
  // node too.
  int64_t hedge_after_ms = kHedgeReadAfter_ms;
  // A node that has not answered a link for so long is not waited for where enough others have.
  int64_t late_after_ms = kCopyStall_ms;
};

// Since the start. Every figure grows by itself.
struct ClusterCounters {
  std::atomic<uint64_t> short_writes{0};     // fewer than `replication` stores hold what was put
  std::atomic<uint64_t> short_links{0};      // the same of objects that were linked
  std::atomic<uint64_t> refused_writes{0};   // fewer than `min_copies`
  std::atomic<uint64_t> failed_copies{0};    // given up at a node, for whatever reason
  std::atomic<uint64_t> fallback_copies{0};  // made afterwards, from a copy that was whole
  std::atomic<uint64_t> linked_copies{0};    // made because of a link
  std::atomic<uint64_t> peer_reads{0};       // reads that another node was asked for
  std::atomic<uint64_t> hedged_reads{0};     // of these, asked of one more node
  std::atomic<uint64_t> left_copies{0};      // copies left in the middle of a read
  std::atomic<uint64_t> damaged_copies{0};   // of these, reported to their nodes
};

struct ClusterParts;

// Blocking and thread-safe. Everything that it refers to outlives it, its readers and its writers.
class ClusterObjects : public ObjectStore {
 public:
  // `local`: this node's own disk. Every field of the options is set.
  ClusterObjects(ObjectStore& local, Peers& peers, ClusterView& view,
                 const ClusterObjectsOptions& options);
  ~ClusterObjects() override;

  const ClusterCounters& counters() const;

  // --- of the cluster
  absl::StatusOr<std::unique_ptr<ObjectWriter>> NewWriter(const PutSpec& spec) override;
  absl::StatusOr<std::vector<LinkResult>> Link(Domain domain, std::span<const ObjectRef> refs,
                                               Revision touched_rev) override;
  absl::StatusOr<std::shared_ptr<ObjectReader>> Open(Domain domain, const ObjectId& id) override;

  // --- of this node's own disk: limits, rows, counts, checks, sweeps and repairs
  uint64_t max_object_bytes() const override { return local_.max_object_bytes(); }
  const std::string& store_uuid() const override { return local_.store_uuid(); }
  absl::StatusOr<std::unique_ptr<ObjectWriter>> NewReplacement(const PutSpec& spec,
                                                               const ObjectRow& seen) override;
  absl::StatusOr<std::optional<ObjectRow>> Stat(Domain domain, const ObjectId& id) override;
  absl::Status Scan(Domain domain, const std::optional<ObjectId>& after,
                    const std::function<bool(const ObjectRow&)>& visit) override;
  absl::StatusOr<std::vector<bool>> DeleteAllBelow(Domain domain, std::span<const ObjectId> ids,
                                                   Revision fence) override;
  absl::StatusOr<std::vector<LinkResult>> LinkEach(Domain domain,
                                                   std::span<const TouchedRef> refs) override;
  absl::StatusOr<std::vector<bool>> DropUnchanged(
      Domain domain, std::span<const TouchedRef> seen,
      const std::function<bool()>& still_allowed) override;
  absl::Status MarkSuspect(Domain domain, const ObjectId& id) override;
  // What a client was sent unverified came from this disk: copies of other nodes are verified here.
  absl::StatusOr<bool> Verify(Domain domain, const ObjectId& id) override;
  absl::StatusOr<StoreUsage> Usage() override;
  absl::Status CheckCopies(Domain domain, bool repair, const CopyProblemFound& found,
                           const CallContext& context) override;
  // STORE_FAILED after a failed sync. Names are not on this disk: they may be added where it is
  // full.
  absl::Status CheckWritable(uint64_t bytes) override;
  void MakeRoomForDelete() override;
  absl::Status SettleRevisions(Domain domain, Revision revision) override;
  TableFiles* tables() override;
  absl::StatusOr<uint64_t> RemoveUnnamedFiles() override;
  absl::Status NothingIsMissing() override;

 private:
  ObjectStore& local_;
  const std::unique_ptr<ClusterParts> parts_;
};

}  // namespace tilekv
