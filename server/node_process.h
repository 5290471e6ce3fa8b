// One node as a process serves it: the store in a directory, its gRPC service, its HTTP endpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/file_system.h"
#include "server/cluster_node.h"
#include "server/listen_address.h"

namespace tilekv {

struct NodeProcessOptions {
  std::string data_dir;
  ListenAddress listen{"127.0.0.1", kDefaultPort};
  ListenAddress http{"127.0.0.1", kDefaultHttpPort};
  std::optional<uint64_t> max_object_bytes;  // of a new store; must be that of an existing one
  uint64_t memory_bytes = kDefaultServerMemoryBytes;
  int64_t slow_call_ms = kSlowCall_ms;  // longer calls are logged; 0: none
  int64_t collect_every_ms = kCollectEvery_s * 1'000;
  int64_t scrub_period_s = kScrubPeriod_s;        // within which every object is read from the disk
  ClusterNodeOptions cluster;                     // not set: a node by itself
  FileSystem* file_system = FileSystem::Posix();  // a seam: of the objects; outlives the node
  // Start waits so for etcd and the cluster; null: it does not wait.
  WaitFunction wait;
};

// INVALID_ARGUMENT where no node can work so, whatever is on its disk.
absl::Status CheckOptions(const NodeProcessOptions& options);

class NodeProcess {
 public:
  // Reaches the cluster, of which it is to be a node, where it is to be one. Opens the store,
  // creating it where the directory is missing or empty, and serves. Addresses are
  // written to DIR/ADDRESS, a line each: `grpc HOST:PORT`, `http HOST:PORT`. Errors name what is
  // wrong: a port that is taken, another writer, another limit, damage.
  static absl::StatusOr<std::unique_ptr<NodeProcess>> Start(const NodeProcessOptions& options);
  // Stops at once where Stop was not called.
  virtual ~NodeProcess() = default;
  // Not ready from now on; calls in progress may end within `drain_ms`, the others are cancelled.
  virtual void Stop(int64_t drain_ms) = 0;
};

}  // namespace tilekv
