#include "kvstore/cluster/copy_candidates.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tilekv {
namespace {

// Smaller comes first.
auto RankOf(const CopyCandidate& candidate) {
  return std::tuple(!candidate.likely_up, !candidate.owner, candidate.self && !candidate.owner,
                    candidate.owner ? NodeState::kIn : candidate.node->state);
}

}  // namespace

CopyCandidates CandidatesFor(ClusterParts& parts, std::shared_ptr<const Placement> placement,
                             const ObjectId& id, LateOnes late) {
  const uint32_t partition = placement->PartitionOf(id);
  const Owners owners = placement->OwnersOf(partition);
  const auto is_likely_up = [&](const std::string& node) {
    return parts.peers.IsLikelyUp(node) && (late == LateOnes::kAsOthers || !parts.late.Has(node));
  };
  CopyCandidates candidates;
  for (NodeIndex index : placement->OwnersThenOthers(partition)) {
    const MapNode& node = placement->map().nodes()[index];
    const bool self = node.id == parts.view.node_id();
    candidates.nodes.push_back({.node = &node,
                                .owner = owners.Contains(index),
                                .self = self,
                                .likely_up = self || is_likely_up(node.id)});
  }
  std::stable_sort(candidates.nodes.begin(), candidates.nodes.end(),
                   [](const auto& a, const auto& b) { return RankOf(a) < RankOf(b); });
  candidates.placement = std::move(placement);
  return candidates;
}

}  // namespace tilekv
