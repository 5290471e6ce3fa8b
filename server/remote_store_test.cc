#include <gtest/gtest.h>

#include "client/connect.h"
#include "kvstore/kv_store_conformance.h"
#include "server/testing_node.h"

namespace tilekv {
namespace {

// The store goes before the node that it speaks to.
struct RemoteStore {
  explicit RemoteStore(uint64_t max_object_bytes) : node(max_object_bytes) {}
  TestingNode node;
  std::unique_ptr<KvStore> store;
};

std::shared_ptr<KvStore> MakeRemoteStore(uint64_t max_object_bytes) {
  auto remote = std::make_shared<RemoteStore>(max_object_bytes);
  auto store = Connect("tilekv://" + remote->node.address());
  EXPECT_TRUE(store.ok()) << store.status();
  remote->store = *std::move(store);
  return std::shared_ptr<KvStore>(remote, remote->store.get());
}

INSTANTIATE_TEST_SUITE_P(OneNodeOverGrpc, KvStoreConformance,
                         testing::Values(StoreMaker{"remote", &MakeRemoteStore}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tilekv
