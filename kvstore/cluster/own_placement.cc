#include "kvstore/cluster/own_placement.h"

namespace tilekv {

OwnPlacement OwnPlacement::Of(ClusterView& view) {
  OwnPlacement own{.placement = view.placement(), .self = std::nullopt};
  const std::vector<MapNode>& nodes = own.map().nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].id == view.node_id()) own.self = static_cast<NodeIndex>(i);
  }
  return own;
}

std::vector<NodeIndex> OwnPlacement::OthersOf(uint32_t partition) const {
  std::vector<NodeIndex> others;
  for (NodeIndex owner : placement->OwnersOf(partition)) {
    if (owner != self) others.push_back(owner);
  }
  return others;
}

}  // namespace tilekv
