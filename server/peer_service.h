// What a node of a cluster answers to the others: the service Peer (peer.proto), from its own disk
// alone. It never asks a third node. Without gRPC in this header.
#pragma once

#include <functional>
#include <string>

#include "kvstore/object/object_store.h"

namespace tilekv {

class NodeRounds;
class RepairAnswers;

struct PeerServiceOptions {
  std::string node_id;  // of this node; calls that mean another one are refused
  // The node's own objects, never those of the cluster. Outlives the service.
  ObjectStore* objects = nullptr;
  // What it does in the collector's rounds; outlives the service. Null: nothing.
  NodeRounds* rounds = nullptr;
  // What it answers for repair; outlives the service. Null: nothing.
  RepairAnswers* repair = nullptr;
  // The id of the catalog's line (16 bytes); asked for every call, in any thread, which it must not
  // block. Calls with another one are refused: CATALOG_REWOUND.
  std::function<std::string()> line_id;
};

}  // namespace tilekv
