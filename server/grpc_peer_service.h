// The service Peer over gRPC. Pulls in gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>

#include "server/peer_context.h"

namespace tilekv {

// `peers` outlives it.
std::unique_ptr<grpc::Service> NewPeerService(PeerContext& peers);

}  // namespace tilekv
