// The other nodes of a cluster over gRPC: who is where is told by whoever reads the cluster map and
// the registrations. Connections are kept for each address.
//
// Every call tells the catalog's line and who asks; a node on another line refuses it. Without gRPC
// in this header.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/base/mutex.h"
#include "kvstore/cluster/peer.h"

namespace tilekv {

class GrpcPeer;
struct PeerCaller;

struct PeerAddress {
  std::string node_id;
  std::string address;     // HOST:PORT
  bool registered = true;  // in the catalog just now
};

struct GrpcPeersOptions {
  std::string node_id;  // of this node, which asks
  // The id of the catalog's line, as the line record has it; asked for every call, in any thread,
  // which it must not block.
  std::function<std::string()> line_id;
  // Memory for what is on its way to other nodes, beyond a chunk of each copy, and for what is read
  // of them before it is asked for (MemoryPlan). Whoever gets none goes on without.
  uint64_t copy_ahead_bytes = 0;
  uint64_t read_ahead_bytes = 0;
};

// Thread-safe. Peers, writers and readers that it gave may outlive it. Writers and readers are
// never destroyed in one of gRPC's threads: they end their calls, and wait until gRPC has let go of
// them.
class GrpcPeers : public Peers {
 public:
  explicit GrpcPeers(const GrpcPeersOptions& options);
  ~GrpcPeers() override;

  // From now on these are the nodes, and no others. Of those whose address is the same as before
  // connections stay. Does not wait for the network.
  void Update(const std::vector<PeerAddress>& nodes);

  std::shared_ptr<Peer> Find(std::string_view node_id) override;
  // Registered, and no call of the last seconds is the last to have failed for want of an answer.
  bool IsLikelyUp(std::string_view node_id) override;

 private:
  struct Known {
    std::shared_ptr<GrpcPeer> peer;
    bool registered = false;
  };

  const std::shared_ptr<const PeerCaller> caller_;
  Mutex mutex_;
  std::map<std::string, Known, std::less<>> nodes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
