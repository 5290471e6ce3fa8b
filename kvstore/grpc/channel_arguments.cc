#include "kvstore/grpc/channel_arguments.h"

#include "kvstore/base/defaults.h"

namespace tilekv {
namespace {

constexpr int kLookaheadBytes = 8 * static_cast<int>(kMiB);
constexpr int kMaxFrameBytes = (1 << 24) - 1;
constexpr int kKeepaliveMs = 10'000;

}  // namespace

grpc::ChannelArguments BulkChannelArguments(int connection) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxReceiveBytes));
  arguments.SetInt("grpc.http2.max_frame_size", kMaxFrameBytes);
  arguments.SetInt("grpc.http2.lookahead_bytes", kLookaheadBytes);
  arguments.SetInt("grpc.http2.bdp_probe", 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A node that was restarted is found again within two seconds of its return.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // Without a pool of its own and an argument that differs, gRPC shares one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt("tilekv.connection", connection);
  return arguments;
}

}  // namespace tilekv
