// The collector's side of a cluster (kvstore/node/shared_collection.h): whose turn it is, and a
// round's lists and sweep at all nodes of the map.
//
// 1. A node collects under the record `collector`, which has a lease. If it stands still for longer
//    another one may begin: its round record takes the place of the first one's, whose nodes then
//    stop before their next batch.
// 2. Each node of the map, in any state, tells of which partitions it has rows; it gets the lists
// of
//    these and of those that it owns, and when it has stored all, sweeps step by step.
// 3. A node that does not answer is told again after the others, from where it was.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kvstore/base/clock.h"
#include "kvstore/base/executor.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/cluster/cluster_view.h"
#include "kvstore/cluster/node_rounds.h"
#include "kvstore/cluster/peer.h"
#include "kvstore/node/shared_collection.h"

namespace tilekv {

struct ClusterCollectionOptions {
  // Where several nodes are worked with at once; who waits works too.
  Executor* executor = nullptr;
  Clock* clock = Clock::System();
  uint64_t part_bytes = kRoundPartBytes;
};

// Thread-safe. Everything that it refers to outlives it and its turns.
class ClusterCollection : public SharedCollection {
 public:
  // `own`: of this node.
  ClusterCollection(Catalog& catalog, NodeRounds& own, Peers& peers, ClusterView& view,
                    const ClusterCollectionOptions& options)
      : catalog_(catalog), own_(own), peers_(peers), view_(view), options_(options) {}

  absl::StatusOr<std::unique_ptr<Turn>> TakeTurn() override;
  Revision fence() override { return own_.fence(); }
  absl::Status Sweep(Domain domain, const RoundName& round, const LiveList& live, Turn* turn,
                     v1::CollectResponse& response, const CallContext& context) override;

 private:
  class LeasedTurn;
  class RoundOfNode;

  Catalog& catalog_;
  NodeRounds& own_;
  Peers& peers_;
  ClusterView& view_;
  const ClusterCollectionOptions options_;
};

}  // namespace tilekv
