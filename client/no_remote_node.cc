// In a build without gRPC: stores in a directory only.
#include "client/remote_node.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<std::shared_ptr<NodeService>> ConnectNode(const std::string& address,
                                                         const RemoteOptions&) {
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("this build reaches no node ({}): it was made without gRPC", address));
}

}  // namespace tilekv
