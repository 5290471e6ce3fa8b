// In a build without gRPC: stores in a directory only.
#include "client/remote_node.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<std::shared_ptr<NodeService>> ConnectNode(const std::string& address,
                                                         const RemoteOptions&, const CallContext&) {
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("this build reaches no node ({}): it was made without gRPC", address));
}

absl::StatusOr<std::shared_ptr<NodeService>> ConnectAnyNode(
    const std::vector<std::string>& addresses, const RemoteOptions& options, const CallContext&) {
  return ConnectNode(addresses.front(), options, {});
}

}  // namespace tilekv
