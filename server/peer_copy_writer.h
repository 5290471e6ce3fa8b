// A copy on its way to another node over gRPC.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kvstore/cluster/peer.h"

namespace tilekv {

class GrpcPeer;

// As Peer::NewCopy; does not wait for the node.
absl::StatusOr<std::unique_ptr<CopyWriter>> NewPeerCopy(std::shared_ptr<GrpcPeer> peer,
                                                        const PutSpec& spec,
                                                        const CallContext& context);

}  // namespace tilekv
