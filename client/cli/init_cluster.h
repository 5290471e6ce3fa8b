// Making a cluster in etcd. This is where a program begins.
#pragma once

#include "absl/status/statusor.h"
#include "client/cli/context.h"

namespace tilekv {

// What the request leaves out of etcd and cluster comes from TILEKV_ETCD and TILEKV_CLUSTER.
absl::StatusOr<ClusterMap> InitClusterInEtcd(const ClusterInitRequest& request);

}  // namespace tilekv
