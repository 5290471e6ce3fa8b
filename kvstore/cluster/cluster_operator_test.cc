#include "kvstore/cluster/cluster_operator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/cluster/cluster_test_util.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

class ClusterOperatorTest : public testing::Test {
 protected:
  ClusterOperatorTest() : maps_(cluster_.OpenMaps()), file_(cluster_.OpenFile()) {
    const StoredMap first = cluster_.Init(*maps_, {"n1", "n2", "n3", "n4"});
    state_ = *ClusterState::Create(*maps_, *file_, first,
                                   {.node_id = "n1",
                                    .clock = &cluster_.clock,
                                    .changed = nullptr,
                                    .notice = nullptr,
                                    .wake = nullptr});
    operator_ = std::make_unique<ClusterOperator>(*maps_, *state_, room_, cluster_.clock);
  }

  void Register(const std::string& id, uint64_t objects) {
    v1::NodeRegistration registration;
    registration.set_store_uuid(TestUuid(id));
    registration.set_address(id + ":7070");
    registration.set_objects(objects);
    ASSERT_TRUE(
        cluster_.catalog
            .Txn({.compares = {},
                  .writes = {CatalogWrite::Put(NodeKey(id), registration.SerializeAsString())}})
            .ok());
    Tell();
  }
  void Tell() {
    state_->OnUpdate(cluster_.Everything());
    state_->Step();
  }
  absl::Status Change(const v1::ChangeClusterRequest& request) {
    auto changed = operator_->Change(request, {});
    state_->Step();
    return changed.status();
  }
  absl::Status Drain(const std::string& id) {
    v1::ChangeClusterRequest request;
    request.set_drain(id);
    return Change(request);
  }
  absl::Status Remove(const std::string& id) {
    v1::ChangeClusterRequest request;
    request.set_remove(id);
    return Change(request);
  }

  TestCluster cluster_;
  std::unique_ptr<MapStore> maps_;
  std::unique_ptr<ClusterFile> file_;
  CatalogRoom room_{1'000'000, nullptr};
  std::unique_ptr<ClusterState> state_;
  std::unique_ptr<ClusterOperator> operator_;
};

TEST_F(ClusterOperatorTest, StatusHasEveryNodeOfTheMapAndWhoIsHere) {
  Register("n2", 7);
  auto status = operator_->Status({});
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->answered_by(), "n1");
  ASSERT_EQ(status->nodes_size(), 4);
  EXPECT_EQ(status->map().nodes_size(), 4);
  EXPECT_EQ(status->nodes(1).id(), "n2");
  EXPECT_TRUE(status->nodes(1).registered());
  EXPECT_EQ(status->nodes(1).registration().objects(), 7u);
  EXPECT_FALSE(status->nodes(2).registered());
  cluster_.Advance(5);
  EXPECT_EQ(operator_->Status({})->nodes(2).missing_seconds(), 5);
}

TEST_F(ClusterOperatorTest, StatusIsAnsweredWhileTheCatalogIsAwayAndSaysSo) {
  Tell();
  room_.Look(CatalogFigures{});
  EXPECT_EQ(operator_->Status({})->catalog().error(), "");
  cluster_.catalog.away = true;
  state_->OnCatalogLost();
  state_->Step();
  auto status = operator_->Status({});
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->nodes_size(), 4);
  EXPECT_NE(status->catalog().error(), "");
}

TEST_F(ClusterOperatorTest, AChangeIsKnownHereBeforeTheWatchTellsIt) {
  ASSERT_TRUE(Drain("n2").ok());
  EXPECT_EQ(state_->placement()->map().Find("n2")->state, NodeState::kDraining);
}

TEST_F(ClusterOperatorTest, ANodeIsRemovedOnlyWhenItSaysThatItHoldsNothing) {
  Register("n2", 3);
  EXPECT_THAT(std::string(Remove("n2").message()), HasSubstr("drain it"));
  ASSERT_TRUE(Drain("n2").ok());
  EXPECT_THAT(std::string(Remove("n2").message()), HasSubstr("holds 3 objects"));
  Register("n2", 0);
  ASSERT_TRUE(Remove("n2").ok());
  EXPECT_EQ(state_->placement()->map().Find("n2"), nullptr);
  EXPECT_EQ(GetReason(Remove("n2")), Reason::kNotFound);
}

TEST_F(ClusterOperatorTest, ANodeThatIsAwayIsNotRemoved) {
  Tell();
  ASSERT_TRUE(Drain("n2").ok());
  EXPECT_THAT(std::string(Remove("n2").message()), HasSubstr("does not say what it holds"));
}

TEST_F(ClusterOperatorTest, TheStoreOfANodeIsChangedOnlyWhileItIsAway) {
  Register("n2", 0);
  v1::ChangeClusterRequest request;
  request.mutable_node()->set_id("n2");
  request.mutable_node()->set_store_uuid(TestUuid("a new disk"));
  EXPECT_THAT(std::string(Change(request).message()), HasSubstr("is here"));
  request.mutable_node()->set_id("n3");
  ASSERT_TRUE(Change(request).ok());
  EXPECT_EQ(state_->placement()->map().Find("n3")->store_uuid, TestUuid("a new disk"));
}

TEST_F(ClusterOperatorTest, OnlyWhatIsSetOfANodeOrOfSettingsChanges) {
  v1::ChangeClusterRequest request;
  request.mutable_node()->set_id("n2");
  request.mutable_node()->set_zone("b");
  ASSERT_TRUE(Change(request).ok());
  request.mutable_settings()->set_replication(2);
  ASSERT_TRUE(Change(request).ok());
  const ClusterMap& map = state_->placement()->map();
  EXPECT_EQ(map.Find("n2")->zone, "b");
  EXPECT_EQ(map.Find("n2")->host, "host-n2");
  EXPECT_EQ(map.settings().replication, 2u);
  EXPECT_EQ(map.settings().min_copies, kDefaultMinCopies);
  EXPECT_EQ(GetReason(Change({})), Reason::kInvalidArgument);
}

TEST(CatalogRoom, WarnsAndThenRefusesNewNamesAndTakesThemAgain) {
  std::vector<std::string> notices;
  CatalogRoom room(1'000'000, [&](const std::string& text) { notices.push_back(text); });
  EXPECT_TRUE(room.Check().ok());
  room.Look(CatalogFigures{.version = "3.4", .database_bytes = 700'000, .in_use_bytes = 1});
  EXPECT_TRUE(notices.empty());
  room.Look(CatalogFigures{.version = "3.4", .database_bytes = 850'000, .in_use_bytes = 1});
  room.Look(CatalogFigures{.version = "3.4", .database_bytes = 860'000, .in_use_bytes = 1});
  EXPECT_EQ(notices.size(), 1u);
  EXPECT_TRUE(room.Check().ok());
  room.Look(CatalogFigures{.version = "3.4", .database_bytes = 960'000, .in_use_bytes = 1});
  EXPECT_EQ(GetReason(room.Check()), Reason::kStoreFull);
  EXPECT_EQ(notices.size(), 2u);
  room.Look(MakeError(Reason::kNodeUnavailable, "away"));
  EXPECT_EQ(GetReason(room.Check()), Reason::kStoreFull);
  EXPECT_FALSE(room.figures().ok());
  room.Look(CatalogFigures{.version = "3.4", .database_bytes = 100'000, .in_use_bytes = 1});
  EXPECT_TRUE(room.Check().ok());
}

}  // namespace
}  // namespace tilekv
