#include "kvstore/placement/membership.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/placement/placement_test_util.h"

namespace tilekv {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kOutAfter = kDefaultOutAfter_s * kSecond;

// A cluster of `count` nodes, all registered, whose map is written as soon as it is proposed.
class MembershipTest : public testing::Test {
 protected:
  void Start(int count) {
    std::vector<MapNode> nodes;
    for (int i = 0; i < count; ++i) nodes.push_back(TestNode("n" + std::to_string(i)));
    map_ = TestMap(nodes);
    for (const MapNode& node : nodes) all_.insert(node.id);
    membership_.OnMap(map_, now_);
    membership_.OnListing(all_, now_);
  }
  MembershipDecision DecideAt(int64_t nanos) {
    now_ = nanos;
    MembershipDecision decision = membership_.Decide(now_);
    if (decision.proposal.has_value()) Write(*decision.proposal);
    return decision;
  }
  void Write(const absl::StatusOr<ClusterMap>& map) {
    ASSERT_TRUE(map.ok()) << map.status();
    map_ = std::make_shared<const ClusterMap>(*map);
    membership_.OnMap(map_, now_);
  }
  NodeState StateOf(std::string_view id) const { return map_->Find(id)->state; }

  int64_t now_ = 5 * kSecond;
  NodeIds all_;
  std::shared_ptr<const ClusterMap> map_;
  Membership membership_;
};

TEST_F(MembershipTest, DecidesNothingBeforeItHasAMapAndAListing) {
  EXPECT_FALSE(membership_.Decide(now_).proposal.has_value());
  membership_.OnMap(TestMap({TestNode("n0")}), now_);
  membership_.OnGone("n0", now_);
  EXPECT_THAT(membership_.missing_since_nanos(), IsEmpty());
  EXPECT_FALSE(membership_.Decide(now_ + 10 * kOutAfter).proposal.has_value());
}

TEST_F(MembershipTest, ANodeThatIsMissingForTheWholeTimeIsMarkedOut) {
  Start(4);
  membership_.OnGone("n1", now_);
  const int64_t due = now_ + kOutAfter;
  MembershipDecision early = DecideAt(due - 1);
  EXPECT_FALSE(early.proposal.has_value());
  EXPECT_EQ(early.next_nanos, due);
  MembershipDecision decision = DecideAt(due);
  EXPECT_THAT(decision.marked_out, ElementsAre("n1"));
  EXPECT_EQ(StateOf("n1"), NodeState::kOut);
  EXPECT_TRUE(map_->Find("n1")->automatic_out);
  // Done: there is nothing more to do or to wait for.
  MembershipDecision after = DecideAt(due + kOutAfter);
  EXPECT_FALSE(after.proposal.has_value());
  EXPECT_EQ(after.next_nanos, std::nullopt);
  EXPECT_THAT(after.held, IsEmpty());
}

TEST_F(MembershipTest, ANodeThatComesBackInTimeBeginsAgain) {
  Start(4);
  membership_.OnGone("n1", now_);
  now_ += kOutAfter - 1;
  membership_.OnRegistered("n1", now_);
  membership_.OnGone("n1", now_);
  EXPECT_THAT(DecideAt(now_ + kOutAfter - 1).marked_out, IsEmpty());
  EXPECT_THAT(DecideAt(now_ + 1).marked_out, ElementsAre("n1"));
}

TEST_F(MembershipTest, ANodeThatWasMarkedOutComesBackInByItself) {
  Start(4);
  membership_.OnGone("n1", now_);
  DecideAt(now_ + kOutAfter);
  ASSERT_EQ(StateOf("n1"), NodeState::kOut);
  membership_.OnRegistered("n1", now_);
  EXPECT_THAT(DecideAt(now_).marked_in, ElementsAre("n1"));
  EXPECT_EQ(StateOf("n1"), NodeState::kIn);
}

TEST_F(MembershipTest, ADrainingNodeIsNeitherMarkedOutNorBroughtBack) {
  Start(5);
  Write(DrainNode(*map_, "n1"));
  membership_.OnGone("n1", now_);
  MembershipDecision decision = DecideAt(now_ + 2 * kOutAfter);
  EXPECT_FALSE(decision.proposal.has_value());
  EXPECT_THAT(decision.held, IsEmpty());
  membership_.OnRegistered("n1", now_);
  EXPECT_FALSE(DecideAt(now_).proposal.has_value());
}

TEST_F(MembershipTest, ACatalogThatWasAwayGivesEveryMissingNodeItsWholeTime) {
  Start(4);
  membership_.OnGone("n1", now_);
  now_ += kOutAfter - 1;
  membership_.OnCatalogLost();
  EXPECT_FALSE(DecideAt(now_ + 10 * kOutAfter).proposal.has_value());
  // The leases have ended meanwhile: nobody is registered yet.
  membership_.OnListing({}, now_);
  EXPECT_FALSE(DecideAt(now_ + 1).proposal.has_value());
  for (const char* id : {"n0", "n2", "n3"}) membership_.OnRegistered(id, now_);
  EXPECT_FALSE(DecideAt(now_ + kOutAfter - 2).proposal.has_value());
  EXPECT_THAT(DecideAt(now_ + 1).marked_out, ElementsAre("n1"));
}

TEST_F(MembershipTest, AListingAgainDoesNotStartTimersThatRun) {
  Start(4);
  membership_.OnGone("n1", now_);
  const int64_t due = now_ + kOutAfter;
  membership_.OnListing({"n0", "n2", "n3"}, now_ + kOutAfter / 2);
  EXPECT_THAT(DecideAt(due).marked_out, ElementsAre("n1"));
}

TEST_F(MembershipTest, MaintenanceStopsTheTimerAndItsEndStartsItFromNothing) {
  Start(4);
  membership_.OnGone("n1", now_);
  now_ += kOutAfter - 1;
  Write(ChangeNode(*map_, "n1", {.maintenance = true}));
  EXPECT_FALSE(DecideAt(now_ + 5 * kOutAfter).proposal.has_value());
  EXPECT_THAT(membership_.missing_since_nanos(), IsEmpty());
  Write(ChangeNode(*map_, "n1", {.maintenance = false}));
  EXPECT_FALSE(DecideAt(now_ + kOutAfter - 1).proposal.has_value());
  EXPECT_THAT(DecideAt(now_ + 1).marked_out, ElementsAre("n1"));
}

TEST_F(MembershipTest, TooManyAtOnceAreAllHeldAndReported) {
  Start(10);
  for (const char* id : {"n1", "n2", "n3", "n4"}) membership_.OnGone(id, now_);
  MembershipDecision decision = DecideAt(now_ + kOutAfter);
  EXPECT_FALSE(decision.proposal.has_value());
  ASSERT_EQ(decision.held.size(), 4u);
  EXPECT_EQ(decision.held[0].id, "n1");
  EXPECT_EQ(decision.held[0].why, AutomaticOut::kTooManyMissing);
  // One comes back: the rest may go.
  membership_.OnRegistered("n4", now_);
  EXPECT_THAT(DecideAt(now_).marked_out, ElementsAre("n1", "n2", "n3"));
}

TEST_F(MembershipTest, ANodeThatIsStillInItsTimeCountsAsMissing) {
  Start(10);
  for (const char* id : {"n1", "n2", "n3"}) membership_.OnGone(id, now_);
  membership_.OnGone("n4", now_ + kOutAfter / 2);
  EXPECT_THAT(DecideAt(now_ + kOutAfter).marked_out, IsEmpty());
}

TEST_F(MembershipTest, TheReplicationStaysWhateverHappens) {
  Start(4);
  Write(ChangeSettings(*map_, {.replication = 4}));
  membership_.OnGone("n1", now_);
  MembershipDecision decision = DecideAt(now_ + kOutAfter);
  EXPECT_FALSE(decision.proposal.has_value());
  ASSERT_EQ(decision.held.size(), 1u);
  EXPECT_EQ(decision.held[0].why, AutomaticOut::kTooFewStay);
}

TEST_F(MembershipTest, ThoseMissingLongestGoFirst) {
  Start(5);
  Write(ChangeSettings(*map_, {.replication = 2}));
  // Of five nodes one may go. n4 is first, although others have smaller names.
  membership_.OnGone("n4", now_);
  DecideAt(now_ + kOutAfter);
  membership_.OnGone("n1", now_);
  MembershipDecision decision = DecideAt(now_ + kOutAfter);
  EXPECT_EQ(StateOf("n4"), NodeState::kOut);
  EXPECT_EQ(StateOf("n1"), NodeState::kIn);
  ASSERT_EQ(decision.held.size(), 1u);
  EXPECT_EQ(decision.held[0].id, "n1");
}

TEST_F(MembershipTest, AReturnAndALossAreOneProposal) {
  Start(5);
  membership_.OnGone("n4", now_);
  DecideAt(now_ + kOutAfter);
  membership_.OnGone("n1", now_);
  now_ += kOutAfter;
  membership_.OnRegistered("n4", now_);
  MembershipDecision decision = DecideAt(now_);
  EXPECT_THAT(decision.marked_in, ElementsAre("n4"));
  EXPECT_THAT(decision.marked_out, ElementsAre("n1"));
  EXPECT_EQ(StateOf("n4"), NodeState::kIn);
  EXPECT_EQ(StateOf("n1"), NodeState::kOut);
}

TEST_F(MembershipTest, ANodeThatJoinsWithoutRegisteringHasItsTimeFromThen) {
  Start(4);
  now_ += 7 * kOutAfter;
  Write(AddNode(*map_, TestNode("n9")));
  EXPECT_FALSE(DecideAt(now_ + kOutAfter - 1).proposal.has_value());
  EXPECT_THAT(DecideAt(now_ + 1).marked_out, ElementsAre("n9"));
}

TEST_F(MembershipTest, AnOlderMapIsNotTakenAndARemovedNodeIsForgotten) {
  Start(5);
  const auto before = map_;
  membership_.OnGone("n1", now_);
  Write(DrainNode(*map_, "n1"));
  Write(RemoveNode(*map_, "n1"));
  EXPECT_THAT(membership_.missing_since_nanos(), IsEmpty());
  membership_.OnMap(before, now_);
  EXPECT_THAT(membership_.missing_since_nanos(), IsEmpty());
  EXPECT_FALSE(DecideAt(now_ + 2 * kOutAfter).proposal.has_value());
}

}  // namespace
}  // namespace tilekv
