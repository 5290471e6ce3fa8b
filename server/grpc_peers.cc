#include "server/grpc_peers.h"

#include <utility>

#include "server/grpc_peer.h"

namespace tilekv {

GrpcPeers::GrpcPeers(const GrpcPeersOptions& options)
    : caller_(std::make_shared<PeerCaller>(
          PeerCaller{.node_id = options.node_id,
                     .line_id = options.line_id,
                     .copy_ahead = std::make_shared<ByteBudget>(options.copy_ahead_bytes),
                     .read_ahead = std::make_shared<ByteBudget>(options.read_ahead_bytes)})) {}

GrpcPeers::~GrpcPeers() = default;

void GrpcPeers::Update(const std::vector<PeerAddress>& nodes) {
  std::map<std::string, Known, std::less<>> known;  // in the end those of before: without the lock
  MutexLock lock(mutex_);
  for (const PeerAddress& node : nodes) {
    if (node.address.empty()) continue;
    Known now{.peer = nullptr, .registered = node.registered};
    auto before = nodes_.find(node.node_id);
    if (before != nodes_.end() && before->second.peer->address() == node.address) {
      now.peer = before->second.peer;
      if (node.registered && !before->second.registered) now.peer->Forget();
    } else {
      now.peer = std::make_shared<GrpcPeer>(caller_, node.node_id, node.address);
    }
    known.insert_or_assign(node.node_id, std::move(now));
  }
  nodes_.swap(known);
}

std::shared_ptr<Peer> GrpcPeers::Find(std::string_view node_id) {
  MutexLock lock(mutex_);
  auto found = nodes_.find(node_id);
  return found == nodes_.end() ? nullptr : found->second.peer;
}

bool GrpcPeers::IsLikelyUp(std::string_view node_id) {
  MutexLock lock(mutex_);
  auto found = nodes_.find(node_id);
  return found != nodes_.end() && found->second.registered && found->second.peer->is_likely_up();
}

}  // namespace tilekv
