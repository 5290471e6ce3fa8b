// What a map says of this node.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/cluster/cluster_view.h"
#include "kvstore/placement/placement.h"

namespace tilekv {

// One placement as this node sees it. Immutable; copies share it.
struct OwnPlacement {
  std::shared_ptr<const Placement> placement;
  std::optional<NodeIndex> self;  // none: the map does not have this node

  static OwnPlacement Of(ClusterView& view);

  const ClusterMap& map() const { return placement->map(); }
  PlacementVersion version() const { return map().placement_version(); }
  const std::string& NameOf(NodeIndex node) const { return map().nodes()[node].id; }
  bool Owns(uint32_t partition) const {
    return self.has_value() && placement->OwnersOf(partition).Contains(*self);
  }
  bool OwnsObject(const ObjectId& id) const { return Owns(placement->PartitionOf(id)); }
  // The owners but this node.
  std::vector<NodeIndex> OthersOf(uint32_t partition) const;
};

}  // namespace tilekv
