#include "kvstore/cluster/cluster_state.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/cluster/cluster_test_util.h"
#include "kvstore/placement/map_edits.h"

namespace tilekv {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ClusterStateTest : public testing::Test {
 protected:
  ClusterStateTest() : maps_(cluster_.OpenMaps()), file_(cluster_.OpenFile()) {
    first_ = cluster_.Init(*maps_, {"n1", "n2", "n3", "n4"});
    state_ = *Create(first_);
  }

  absl::StatusOr<std::unique_ptr<ClusterState>> Create(const StoredMap& first) {
    return ClusterState::Create(
        *maps_, *file_, first,
        {.node_id = "n1",
         .clock = &cluster_.clock,
         .changed = [this](const ClusterPicture&) { ++changes_; },
         .notice = [this](const std::string& text) { notices_.push_back(text); },
         .wake = nullptr});
  }
  void Register(const std::string& id) {
    v1::NodeRegistration registration;
    registration.set_store_uuid(TestUuid(id));
    registration.set_address(id + ":7070");
    ASSERT_TRUE(
        cluster_.catalog
            .Txn({.compares = {},
                  .writes = {CatalogWrite::Put(NodeKey(id), registration.SerializeAsString())}})
            .ok());
  }
  void Unregister(const std::string& id) {
    ASSERT_TRUE(
        cluster_.catalog.Txn({.compares = {}, .writes = {CatalogWrite::Delete(NodeKey(id))}}).ok());
  }
  void RegisterAll() {
    for (const char* id : {"n1", "n2", "n3", "n4"}) Register(id);
    Tell();
  }
  void Tell() {
    state_->OnUpdate(cluster_.Everything());
    state_->Step();
  }
  StoredMap Edit(const MapStore::MapEdit& edit) { return maps_->Edit(edit)->stored; }
  NodeState StateOf(const std::string& id) { return state_->picture()->map().Find(id)->state; }

  TestCluster cluster_;
  std::unique_ptr<MapStore> maps_;
  std::unique_ptr<ClusterFile> file_;
  StoredMap first_;
  std::unique_ptr<ClusterState> state_;
  int changes_ = 0;
  std::vector<std::string> notices_;
};

TEST_F(ClusterStateTest, FollowsTheMapAndNotesItsVersionFirst) {
  EXPECT_EQ(file_->seen().version, first_.map->version());
  Edit([](const ClusterMap& map) { return DrainNode(map, "n2"); });
  Tell();
  EXPECT_EQ(StateOf("n2"), NodeState::kDraining);
  EXPECT_EQ(file_->seen().version, state_->placement()->map().version());
  EXPECT_THAT(notices_, IsEmpty());
}

TEST_F(ClusterStateTest, AMapWhoseVersionCannotBeNotedIsNotActedOnUntilItIs) {
  bool fails = true;
  cluster_.disk.hook = [&](const std::string& call, const std::string&) {
    return fails && call == "write" ? MakeError(Reason::kInternal, "EIO") : absl::OkStatus();
  };
  Edit([](const ClusterMap& map) { return DrainNode(map, "n2"); });
  state_->OnUpdate(cluster_.Everything());
  const auto again_nanos = state_->Step();
  ASSERT_TRUE(again_nanos.has_value());
  EXPECT_EQ(StateOf("n2"), NodeState::kIn);
  EXPECT_THAT(notices_, Contains(HasSubstr("before it is noted")));
  fails = false;
  state_->Step();
  EXPECT_EQ(StateOf("n2"), NodeState::kDraining);
}

TEST_F(ClusterStateTest, AnOlderMapIsNotActedOnAfterARestart) {
  const StoredMap newer = Edit([](const ClusterMap& map) { return DrainNode(map, "n2"); });
  Tell();
  state_.reset();
  auto back = Create(first_);
  EXPECT_EQ(GetReason(back.status()), Reason::kCatalogRewound);
  EXPECT_TRUE(Create(newer).ok());
}

TEST_F(ClusterStateTest, AnotherMapOfTheSameVersionIsNotActedOn) {
  const StoredMap one = Edit([](const ClusterMap& map) { return DrainNode(map, "n2"); });
  Tell();
  auto other = DrainNode(*first_.map, "n3");
  ASSERT_EQ(other->version(), one.map->version());
  state_->OnMap({std::make_shared<const ClusterMap>(*other), one.revision.Next()});
  state_->Step();
  EXPECT_EQ(StateOf("n3"), NodeState::kIn);
  EXPECT_THAT(notices_, Contains(HasSubstr("CATALOG_REWOUND")));
}

TEST_F(ClusterStateTest, ANodeThatIsRemovedSaysSo) {
  Edit([](const ClusterMap& map) { return DrainNode(map, "n1"); });
  Edit([](const ClusterMap& map) { return RemoveNode(map, "n1"); });
  Tell();
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("was removed")));
}

TEST_F(ClusterStateTest, ALateAnswerIsNoReturnToThePast) {
  Edit([](const ClusterMap& map) { return DrainNode(map, "n2"); });
  Tell();
  state_->OnMap(first_);
  state_->Step();
  EXPECT_EQ(StateOf("n2"), NodeState::kDraining);
  EXPECT_THAT(notices_, IsEmpty());
}

TEST_F(ClusterStateTest, ANodeThatStaysAwayIsMarkedOutAndInAgainWhenItIsBack) {
  RegisterAll();
  Unregister("n4");
  state_->OnUpdate(
      {.everything = false, .entries = {}, .deleted = {NodeKey("n4")}, .revision = {}});
  const auto due_nanos = state_->Step();
  ASSERT_TRUE(due_nanos.has_value());
  EXPECT_EQ(*due_nanos, cluster_.clock.MonotonicNanos() + kDefaultOutAfter_s * 1'000'000'000);
  cluster_.Advance(kDefaultOutAfter_s - 1);
  state_->Step();
  EXPECT_EQ(StateOf("n4"), NodeState::kIn);
  cluster_.Advance(1);
  state_->Step();
  EXPECT_EQ(StateOf("n4"), NodeState::kOut);
  EXPECT_EQ((*maps_->Read())->map->Find("n4")->automatic_out, true);
  Register("n4");
  Tell();
  EXPECT_EQ(StateOf("n4"), NodeState::kIn);
}

TEST_F(ClusterStateTest, WhileTheCatalogIsAwayNobodyIsMissing) {
  RegisterAll();
  Unregister("n4");
  Tell();
  cluster_.Advance(kDefaultOutAfter_s / 2);
  state_->OnCatalogLost();
  state_->Step();
  EXPECT_FALSE(state_->picture()->catalog_answers);
  EXPECT_THAT(state_->picture()->missing_since_nanos, IsEmpty());
  cluster_.Advance(kDefaultOutAfter_s);
  state_->Step();
  EXPECT_EQ(StateOf("n4"), NodeState::kIn);
  state_->OnCatalogAnswers();
  state_->Step();
  EXPECT_TRUE(state_->picture()->catalog_answers);
  cluster_.Advance(kDefaultOutAfter_s - 1);
  state_->Step();
  EXPECT_EQ(StateOf("n4"), NodeState::kIn);
  cluster_.Advance(1);
  state_->Step();
  EXPECT_EQ(StateOf("n4"), NodeState::kOut);
}

TEST_F(ClusterStateTest, AProposalThatCannotBeWrittenIsTriedAgain) {
  RegisterAll();
  Unregister("n4");
  Tell();
  cluster_.Advance(kDefaultOutAfter_s);
  cluster_.catalog.away = true;
  ASSERT_TRUE(state_->Step().has_value());
  EXPECT_THAT(notices_, Contains(HasSubstr("cannot be changed")));
  EXPECT_EQ(StateOf("n4"), NodeState::kIn);
  cluster_.catalog.away = false;
  state_->Step();
  EXPECT_EQ(StateOf("n4"), NodeState::kOut);
}

TEST_F(ClusterStateTest, AProposalOnAMapThatHasChangedIsMadeAnew) {
  RegisterAll();
  Unregister("n4");
  Tell();
  cluster_.Advance(kDefaultOutAfter_s);
  Edit([](const ClusterMap& map) { return ChangeNode(map, "n2", {.zone = "z"}); });
  // Not told of the change: the first write fails.
  auto due_nanos = state_->Step();
  ASSERT_TRUE(due_nanos.has_value());
  state_->Step();
  EXPECT_EQ(StateOf("n4"), NodeState::kOut);
  EXPECT_EQ(state_->picture()->map().Find("n2")->zone, "z");
}

TEST_F(ClusterStateTest, WhyANodeIsNotMarkedOutIsTold) {
  RegisterAll();
  Unregister("n3");
  Unregister("n4");
  Tell();
  cluster_.Advance(kDefaultOutAfter_s);
  state_->Step();
  EXPECT_EQ(StateOf("n3"), NodeState::kIn);
  ASSERT_EQ(state_->picture()->held.size(), 2u);
  EXPECT_EQ(state_->picture()->held[0].why, AutomaticOut::kTooManyMissing);
}

TEST_F(ClusterStateTest, ChangesAreToldOnceEach) {
  RegisterAll();
  const int before = changes_;
  state_->Step();
  EXPECT_EQ(changes_, before);
  Edit([](const ClusterMap& map) { return DrainNode(map, "n2"); });
  Tell();
  EXPECT_EQ(changes_, before + 1);
}

}  // namespace
}  // namespace tilekv
