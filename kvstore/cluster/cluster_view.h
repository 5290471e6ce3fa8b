// What a node knows of its cluster at this moment.
#pragma once

#include <memory>
#include <string>

#include "kvstore/placement/placement.h"

namespace tilekv {

// Thread-safe.
class ClusterView {
 public:
  virtual ~ClusterView() = default;
  // This node's in the cluster map, which may not have it yet. Never changes.
  virtual const std::string& node_id() const = 0;
  // Of the newest map that this node has seen. Never null, and never of an older map than it was
  // before.
  virtual std::shared_ptr<const Placement> placement() = 0;
};

}  // namespace tilekv
