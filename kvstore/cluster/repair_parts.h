// What the parts of Repairer share.
#pragma once

#include <set>

#include "kvstore/cluster/late_nodes.h"
#include "kvstore/cluster/own_placement.h"
#include "kvstore/cluster/pull_list.h"
#include "kvstore/cluster/repair_throttle.h"
#include "kvstore/cluster/repairer.h"

namespace tilekv {

struct RepairParts {
  RepairParts(ObjectStore& local, Peers& peers, ClusterView& view, const RepairerOptions& options)
      : local(local),
        peers(peers),
        view(view),
        options(options),
        pulls(options.domain, *options.clock, options.list_objects),
        throttle(*options.clock, kDefaultRepairBytesPerSecond),
        late(*options.clock) {}

  ObjectStore& local;
  Peers& peers;
  ClusterView& view;
  const RepairerOptions options;
  RepairCounters counters;
  PullList pulls;
  RepairThrottle throttle;
  LateNodes late;  // that gave nothing when they were pulled from
};

// Nodes that are asked for nothing more in this round: they did not answer, or have another
// placement.
using SilentNodes = std::set<NodeIndex>;

}  // namespace tilekv
