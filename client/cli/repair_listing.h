// How the repair of a cluster is shown.
#pragma once

#include <string>

#include "client/cli/output.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// Of one node, as `node ls` and `cluster status` have it.
Json RepairJson(const v1::RepairStatus& repair);

// What all nodes that are here have told of their repair, taken together.
struct ClusterRepair {
  // Every node is here, goes by the newest map's placement, lacks nothing, gives nothing away, and
  // has found that all owners hold the same.
  bool complete = false;
  uint64_t objects_left = 0;
  uint64_t bytes_left = 0;
  uint64_t missing_objects = 0;
  uint64_t foreign_partitions = 0;  // summed over nodes
  uint64_t short_partitions = 0;    // likewise: a partition counts at each of its owners
  uint64_t bytes_per_second = 0;
  // Of the node that needs longest, at its rate of late; 0: nothing is left, or it does not tell.
  uint64_t seconds_left = 0;
};
ClusterRepair RepairOf(const v1::ClusterStatusResponse& status);

Json RepairJson(const ClusterRepair& repair);
// One line: "complete", "1.2 GiB in 340 objects to copy, 64.0 MiB/s, 20s left", ...
std::string RepairText(const Output& out, const ClusterRepair& repair);

}  // namespace tilekv
