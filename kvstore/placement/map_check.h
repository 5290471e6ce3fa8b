// Whether a cluster map's record can be a map. For cluster_map.cc only.
#pragma once

#include "absl/status/status.h"
#include "tilekv/v1/cluster.pb.h"

namespace tilekv {

// INVALID_ARGUMENT says which field of which node is out of which range. The feature level is not
// looked at.
absl::Status CheckClusterMapRecord(const v1::ClusterMapRecord& record);

}  // namespace tilekv
