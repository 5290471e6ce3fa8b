#include "server/testing_node.h"

#include <cstdlib>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/node/open_catalog.h"

namespace tilekv {
namespace {

std::filesystem::path NewDirectory() {
  std::string path = (std::filesystem::temp_directory_path() / "tilekv-node-XXXXXX").string();
  TILEKV_CHECK(mkdtemp(path.data()) != nullptr);
  return path;
}

template <typename T>
T OrDie(absl::StatusOr<T> result) {
  if (!result.ok()) std::fprintf(stderr, "%s\n", ErrorText(result.status()).c_str());
  TILEKV_CHECK(result.ok());
  return *std::move(result);
}

}  // namespace

TestingNode::TestingNode(uint64_t max_object_bytes, const NodeServerOptions& server)
    : directory_(NewDirectory()), options_(server) {
  LocalEngineOptions options;
  options.directory = directory_;
  options.create_if_missing = true;
  options.max_object_bytes = max_object_bytes;
  engine_ = OrDie(LocalEngine::Open(options));
  catalog_ = OrDie(OpenStoreCatalog(directory_, false, *engine_));
  NodeOptions node;
  node.kind = "node";
  node_ = OrDie(LocalNode::Create(*engine_, *catalog_, node));
  StartServer();
}

TestingNode::~TestingNode() {
  server_.reset();
  node_.reset();
  catalog_.reset();
  engine_.reset();
  std::filesystem::remove_all(directory_);
}

std::string TestingNode::address() const { return fmt::format("127.0.0.1:{}", port_); }

void TestingNode::StopServer() { server_.reset(); }

void TestingNode::StartServer() {
  NodeServerOptions options = options_;
  options.listen = address();
  server_ = OrDie(NodeServer::Start(*node_, metrics_, options));
  port_ = server_->port();
}

}  // namespace tilekv
