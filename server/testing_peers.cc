#include "server/testing_peers.h"

#include <cstdio>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

template <typename T>
T OrDie(absl::StatusOr<T> result) {
  if (!result.ok()) std::fprintf(stderr, "%s\n", ErrorText(result.status()).c_str());
  TILEKV_CHECK(result.ok());
  return *std::move(result);
}

}  // namespace

TestingPeer::TestingPeer(const std::string& node_id, ObjectStore& store)
    : node_id_(node_id), store_(store) {
  node_ = OrDie(LocalNode::Create(store_, catalog_, {}));
  StartServer();
}

TestingPeer::~TestingPeer() { server_.reset(); }

std::string TestingPeer::address() const { return fmt::format("127.0.0.1:{}", port_); }

void TestingPeer::StopServer() { server_.reset(); }

void TestingPeer::StartServer() {
  NodeServerOptions options;
  options.listen = address();
  options.peers = PeerServiceOptions{.node_id = node_id_,
                                     .objects = &store_,
                                     .rounds = rounds_,
                                     .repair = repair_,
                                     .line_id = [this] { return line_; }};
  server_ = OrDie(NodeServer::Start(*node_, metrics_, options));
  port_ = server_->port();
}

GrpcPeersOptions TestingPeersOptions() {
  return {.node_id = "asker",
          .line_id = [] { return std::string(kTestingLine); },
          .copy_ahead_bytes = 16 * kMiB,
          .read_ahead_bytes = 16 * kMiB};
}

}  // namespace tilekv
