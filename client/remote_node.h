// RemoteNode: the calls of one node over gRPC.
//
// Two connections, because one does not fill a fast network; bulk calls take them in turn. Content
// is sent from the caller's memory without a copy and received straight into it, verified to the
// id as it comes. Nothing is retried here: whoever knows what is safe to repeat does that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/defaults.h"
#include "kvstore/node/node_service.h"

namespace tilekv {

struct RemoteOptions {
  int64_t connect_timeout_ms = 5'000;
  // A bulk call of which nothing moves for so long, or a question that is not answered, ends with
  // NODE_UNAVAILABLE, naming node and object, and is not tried again.
  int64_t progress_timeout_ms = kProgressTimeout_s * 1'000;
  // How long a node may take to make durable what it has received whole, or was told.
  int64_t sync_timeout_ms = 60'000;
  int connections = 2;
};

// `address` is HOST:PORT. Asks the node who it is, so that a wrong address is found here:
// NODE_UNAVAILABLE names the address and what to check, within the connect timeout. The node stays
// usable when the server goes away and comes back.
absl::StatusOr<std::shared_ptr<NodeService>> ConnectNode(const std::string& address,
                                                         const RemoteOptions& options = {},
                                                         const CallContext& context = {});

// Nodes of one cluster, of which any will do: calls go to one of them, the first of the list if it
// answers, and when the connection to it breaks those that come after go to the next. As the other
// one in everything else.
absl::StatusOr<std::shared_ptr<NodeService>> ConnectAnyNode(
    const std::vector<std::string>& addresses, const RemoteOptions& options = {},
    const CallContext& context = {});

// Addresses are HOST:PORT.
class RemoteTransport : public Transport {
 public:
  explicit RemoteTransport(const RemoteOptions& options = {}) : options_(options) {}
  absl::StatusOr<std::shared_ptr<NodeService>> Connect(const std::string& address) override {
    return ConnectNode(address, options_);
  }

 private:
  const RemoteOptions options_;
};

}  // namespace tilekv
