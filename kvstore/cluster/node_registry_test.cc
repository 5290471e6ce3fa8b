#include "kvstore/cluster/node_registry.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/cluster/cluster_test_util.h"

namespace tilekv {
namespace {

class NodeRegistryTest : public testing::Test {
 protected:
  NodeRegistryTest() : file_(cluster_.OpenFile()) {
    now_.set_store_uuid(TestUuid("n1"));
    now_.set_address("n1:7070");
    now_.set_health(v1::NODE_HEALTH_GOOD);
    registry_ = New();
  }

  std::unique_ptr<NodeRegistry> New() {
    return std::make_unique<NodeRegistry>(
        cluster_.catalog, *file_, NodeRegistryOptions{.node_id = "n1", .clock = &cluster_.clock},
        [this] { return now_; });
  }
  std::optional<v1::NodeRegistration> Registered() {
    auto entry = cluster_.catalog.Get(NodeKey("n1"));
    if (!entry.ok() || !entry->has_value()) return std::nullopt;
    return ParseRegistration((*entry)->value);
  }
  Revision RegisteredAt() { return (*cluster_.catalog.Get(NodeKey("n1")))->mod_revision; }

  TestCluster cluster_;
  std::unique_ptr<ClusterFile> file_;
  v1::NodeRegistration now_;
  std::unique_ptr<NodeRegistry> registry_;
};

TEST_F(NodeRegistryTest, ANodeIsHereAsLongAsItBeats) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(registry_->Beat().ok());
    cluster_.Advance(kNodeLease_s / 2);
  }
  ASSERT_TRUE(Registered().has_value());
  EXPECT_EQ(Registered()->address(), "n1:7070");
  EXPECT_EQ(registry_->leases(), 1);
  cluster_.Advance(kNodeLease_s);
  EXPECT_FALSE(Registered().has_value());
}

TEST_F(NodeRegistryTest, ALeaseThatWasLostIsFollowedByANewOne) {
  ASSERT_TRUE(registry_->Beat().ok());
  cluster_.Advance(kNodeLease_s + 1);
  ASSERT_FALSE(Registered().has_value());
  ASSERT_TRUE(registry_->Beat().ok());
  EXPECT_TRUE(Registered().has_value());
  EXPECT_EQ(registry_->leases(), 2);
}

TEST_F(NodeRegistryTest, AFailedDiskLetsTheLeaseGo) {
  ASSERT_TRUE(registry_->Beat().ok());
  cluster_.disk.hook = [](const std::string& call, const std::string&) {
    return call == "sync" ? MakeError(Reason::kInternal, "EIO") : absl::OkStatus();
  };
  cluster_.Advance(kNodeLease_s / 2);
  EXPECT_FALSE(registry_->Beat().ok());
  cluster_.Advance(kNodeLease_s / 2 + 1);
  EXPECT_FALSE(registry_->Beat().ok());
  EXPECT_FALSE(Registered().has_value());
}

TEST_F(NodeRegistryTest, AFullDiskStopsNothing) {
  cluster_.disk.hook = [](const std::string& call, const std::string&) {
    return call == "write" ? MakeError(Reason::kStoreFull, "ENOSPC") : absl::OkStatus();
  };
  ASSERT_TRUE(registry_->Beat().ok());
  EXPECT_TRUE(Registered().has_value());
}

TEST_F(NodeRegistryTest, ACatalogThatWasAwayIsRegisteredAtAgain) {
  ASSERT_TRUE(registry_->Beat().ok());
  cluster_.catalog.away = true;
  EXPECT_EQ(GetReason(registry_->Beat()), Reason::kNodeUnavailable);
  cluster_.Advance(kNodeLease_s + 1);
  EXPECT_EQ(GetReason(registry_->Beat()), Reason::kNodeUnavailable);
  cluster_.catalog.away = false;
  ASSERT_TRUE(registry_->Beat().ok());
  EXPECT_TRUE(Registered().has_value());
}

TEST_F(NodeRegistryTest, ANodeThatWasKilledTakesItsPlaceAgainAtOnce) {
  ASSERT_TRUE(registry_->Beat().ok());
  registry_ = New();  // another process: the lease before goes on without it
  now_.set_address("n1:8080");
  ASSERT_TRUE(registry_->Beat().ok());
  EXPECT_EQ(Registered()->address(), "n1:8080");
  cluster_.Advance(kNodeLease_s / 2);
  ASSERT_TRUE(registry_->Beat().ok());
  cluster_.Advance(kNodeLease_s / 2 + 1);  // the lease before has ended
  EXPECT_TRUE(Registered().has_value());
}

TEST_F(NodeRegistryTest, AnotherStoreUnderThisIdIsLeftAlone) {
  ASSERT_TRUE(registry_->Beat().ok());
  now_.set_store_uuid(TestUuid("another"));
  auto second = New();
  EXPECT_EQ(GetReason(second->Beat()), Reason::kStoreMismatch);
  EXPECT_EQ(Registered()->store_uuid(), TestUuid("n1"));
}

TEST_F(NodeRegistryTest, FiguresAreWrittenNowAndThenAndHealthAtOnce) {
  now_.set_objects(5);
  ASSERT_TRUE(registry_->Beat().ok());
  const Revision first = RegisteredAt();
  now_.set_objects(6);
  cluster_.Advance(1);
  ASSERT_TRUE(registry_->Beat().ok());
  EXPECT_EQ(RegisteredAt(), first);
  now_.set_health(v1::NODE_HEALTH_FULL);
  ASSERT_TRUE(registry_->Beat().ok());
  EXPECT_EQ(Registered()->health(), v1::NODE_HEALTH_FULL);
  EXPECT_EQ(Registered()->objects(), 6u);
  now_.set_objects(7);
  for (int i = 0; i < kNodeFiguresEvery_s; ++i) {
    cluster_.Advance(1);
    ASSERT_TRUE(registry_->Beat().ok());
  }
  EXPECT_EQ(Registered()->objects(), 7u);
}

TEST_F(NodeRegistryTest, ThatANodeHoldsNothingAnyMoreIsKnownAtOnce) {
  now_.set_objects(1);
  ASSERT_TRUE(registry_->Beat().ok());
  now_.set_objects(0);
  ASSERT_TRUE(registry_->Beat().ok());
  EXPECT_EQ(Registered()->objects(), 0u);
}

TEST_F(NodeRegistryTest, ANodeThatLeavesIsGoneAtOnce) {
  ASSERT_TRUE(registry_->Beat().ok());
  ASSERT_TRUE(registry_->Leave().ok());
  EXPECT_FALSE(Registered().has_value());
}

}  // namespace
}  // namespace tilekv
