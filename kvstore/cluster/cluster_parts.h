// What the parts of ClusterObjects share.
#pragma once

#include <memory>

#include "kvstore/cluster/cluster_objects.h"
#include "kvstore/cluster/late_nodes.h"

namespace tilekv {

struct ClusterParts {
  ObjectStore& local;
  Peers& peers;
  ClusterView& view;
  const ClusterObjectsOptions options;
  ClusterCounters counters;
  LateNodes late;
};

}  // namespace tilekv
