// A copy that another node has, read over gRPC.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kvstore/cluster/peer.h"

namespace tilekv {

class GrpcPeer;

// As Peer::OpenCopy. A small content comes with the opening. Reads that go on where the one before
// ended are read ahead of, as far as the budget has memory at once; what is asked for, and what is
// read ahead, is received whatever else happens here, so that the other node never waits for more
// than the network.
absl::StatusOr<std::shared_ptr<ObjectReader>> OpenPeerCopy(std::shared_ptr<GrpcPeer> peer,
                                                           Domain domain, const ObjectId& id,
                                                           const CallContext& context);

}  // namespace tilekv
