// For tests: a node with its server in this process, in a directory of its own that goes with it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "kvstore/base/defaults.h"
#include "kvstore/node/local_node.h"
#include "kvstore/object/local_engine.h"
#include "server/node_server.h"
#include "server/server_metrics.h"

namespace tilekv {

class TestingNode {
 public:
  explicit TestingNode(uint64_t max_object_bytes = kDefaultMaxObjectBytes,
                       const NodeServerOptions& server = {});
  ~TestingNode();

  std::string address() const;  // HOST:PORT
  const std::filesystem::path& directory() const { return directory_; }
  NodeServer& server() { return *server_; }
  LocalNode& node() { return *node_; }
  // Stops the server, and starts it again on the same port with the same node.
  void StopServer();
  void StartServer();

 private:
  const std::filesystem::path directory_;
  const NodeServerOptions options_;
  std::unique_ptr<LocalEngine> engine_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<LocalNode> node_;
  ServerMetrics metrics_;
  int port_ = 0;
  std::unique_ptr<NodeServer> server_;
};

}  // namespace tilekv
