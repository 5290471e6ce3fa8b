// Which nodes are asked for an object, and in which order.
#pragma once

#include <memory>
#include <vector>

#include "kvstore/cluster/cluster_parts.h"
#include "kvstore/object/object_id.h"
#include "kvstore/placement/placement.h"

namespace tilekv {

struct CopyCandidate {
  const MapNode* node = nullptr;  // of the list's map
  bool owner = false;
  bool self = false;  // this node: its own disk is worked on, not a peer
  bool likely_up = false;
};

// Immutable; copies share the map.
struct CopyCandidates {
  std::shared_ptr<const Placement> placement;  // whose map the nodes belong to
  std::vector<CopyCandidate> nodes;            // every node of the map, the best first

  size_t replication() const { return placement->map().settings().replication; }
  size_t min_copies() const { return placement->map().settings().min_copies; }
};

// Those that are likely to answer come first; among them the owners in the order of choice, then
// others that are in, then those that are draining or out, each by rank, and at last this node
// where it is no owner. Those that are not likely to answer follow in the same order.
// `late`: those that are late just now count as not likely to answer.
enum class LateOnes { kAsOthers, kUnlikely };
CopyCandidates CandidatesFor(ClusterParts& parts, std::shared_ptr<const Placement> placement,
                             const ObjectId& id, LateOnes late = LateOnes::kAsOthers);

}  // namespace tilekv
