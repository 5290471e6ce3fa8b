// For tests: nodes of a cluster that answer each other over real sockets, each with a store of its
// own in memory, or the one that is given.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/catalog/memory_catalog.h"
#include "kvstore/node/local_node.h"
#include "kvstore/object/memory_object_store.h"
#include "server/grpc_peers.h"
#include "server/node_server.h"
#include "server/server_metrics.h"

namespace tilekv {

inline constexpr char kTestingLine[] = "LINELINELINELINE";

class TestingPeer {
 public:
  // `store` outlives the node.
  TestingPeer(const std::string& node_id, ObjectStore& store);
  ~TestingPeer();

  std::string address() const;
  void StopServer();
  // On the same port.
  void StartServer();
  // From now on the node is on another line of the catalog.
  void set_line(const std::string& line) { line_ = line; }
  // From the next StartServer on; outlives the node. Null: it takes no rounds.
  void set_rounds(NodeRounds* rounds) { rounds_ = rounds; }
  // Likewise; null: it answers nothing for repair.
  void set_repair(RepairAnswers* repair) { repair_ = repair; }

 private:
  const std::string node_id_;
  std::string line_ = kTestingLine;
  ObjectStore& store_;
  NodeRounds* rounds_ = nullptr;
  RepairAnswers* repair_ = nullptr;
  MemoryCatalog catalog_;
  std::unique_ptr<LocalNode> node_;
  ServerMetrics metrics_;
  int port_ = 0;
  std::unique_ptr<NodeServer> server_;
};

// What the node "asker" asks others with.
GrpcPeersOptions TestingPeersOptions();

}  // namespace tilekv
