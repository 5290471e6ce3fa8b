// How connections that carry bulk are set up. Pulls in gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

namespace tilekv {

// Of one of several connections to the same address, counted from 0: each is one of its own.
grpc::ChannelArguments BulkChannelArguments(int connection);

}  // namespace tilekv
