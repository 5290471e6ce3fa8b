// NodeServer: one node's gRPC service on one port, with health and reflection. Without gRPC in this
// header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/defaults.h"
#include "kvstore/node/local_node.h"
#include "server/peer_service.h"
#include "server/server_metrics.h"

namespace tilekv {

struct NodeServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT; port 0: any free one
  uint64_t memory_bytes = kDefaultServerMemoryBytes;
  // How long a transfer waits for a place, and one whose client is too slow keeps it.
  int64_t transfer_queue_ms = kTransferQueue_s * 1'000;
  int64_t stalled_transfer_ms = kStalledTransfer_s * 1'000;
  int64_t slow_call_ms = kSlowCall_ms;      // longer ones are logged; 0: none
  std::optional<PeerServiceOptions> peers;  // of a node of a cluster: the others ask here too
};

class NodeServer {
 public:
  // Serves at once. Node and metrics outlive the server. NODE_UNAVAILABLE when the port is taken.
  static absl::StatusOr<std::unique_ptr<NodeServer>> Start(LocalNode& node, ServerMetrics& metrics,
                                                           const NodeServerOptions& options);
  // Shuts down at once where Shutdown was not called.
  virtual ~NodeServer() = default;

  virtual int port() const = 0;
  // New calls are refused and health says so; calls in progress have `drain_ms` to end, then they
  // are cancelled. Returns when the last has ended.
  virtual void Shutdown(int64_t drain_ms) = 0;

  // What streams hold now, for tests and reports.
  virtual uint64_t stream_bytes_held() = 0;
  virtual uint64_t read_bytes_held() = 0;
  virtual uint64_t read_bytes_peak() = 0;  // since the start, without short reads
};

// From now on what gRPC would print goes here, line by line. For a program, before it starts
// anything.
void SetGrpcLog(void (*write)(bool error, const std::string& text));

}  // namespace tilekv
