// In a build without gRPC: etcd is not reached.
#include "client/cli/init_cluster.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<ClusterMap> InitClusterInEtcd(const ClusterInitRequest&) {
  return MakeError(Reason::kInvalidArgument, "this build makes no cluster: it has no gRPC");
}

}  // namespace tilekv
