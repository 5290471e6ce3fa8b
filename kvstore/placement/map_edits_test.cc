#include "kvstore/placement/map_edits.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/placement/placement_test_util.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

std::shared_ptr<const ClusterMap> Nodes(int count, const ClusterSettings& settings = {}) {
  std::vector<MapNode> nodes;
  for (int i = 1; i <= count; ++i) nodes.push_back(TestNode("n" + std::to_string(i)));
  return TestMap(nodes, settings);
}

ClusterMap Must(absl::StatusOr<ClusterMap> map) {
  EXPECT_TRUE(map.ok()) << map.status();
  return *std::move(map);
}

void ExpectRefused(const absl::StatusOr<ClusterMap>& map, const std::string& says) {
  EXPECT_EQ(GetReason(map.status()), Reason::kInvalidArgument);
  EXPECT_THAT(ErrorText(map.status()), HasSubstr(says));
}

TEST(MapEdits, WhatDecidesPlacementRaisesBothVersions) {
  const auto map = Nodes(5);
  const std::function<absl::StatusOr<ClusterMap>(const ClusterMap&)> edits[] = {
      [](const auto& m) { return AddNode(m, TestNode("n9")); },
      [](const auto& m) { return DrainNode(m, "n1"); },
      [](const auto& m) { return MarkOutAutomatically(m, "n1", {}); },
      [](const auto& m) { return ChangeNode(m, "n1", {.weight_milli = 2'000}); },
      [](const auto& m) { return ChangeNode(m, "n1", {.zone = "z"}); },
      [](const auto& m) { return ChangeNode(m, "n1", {.host = "h"}); },
      [](const auto& m) { return ChangeSettings(m, {.replication = 2}); },
  };
  for (const auto& edit : edits) {
    const ClusterMap next = Must(edit(*map));
    EXPECT_EQ(next.version(), map->version().Next());
    EXPECT_EQ(next.placement_version().version, next.version());
    EXPECT_NE(next.placement_version().hash, map->placement_version().hash);
  }
}

TEST(MapEdits, WhatDoesNotDecidePlacementRaisesTheMapsVersionAlone) {
  const auto map = Nodes(5);
  const std::function<absl::StatusOr<ClusterMap>(const ClusterMap&)> edits[] = {
      [](const auto& m) { return ChangeNode(m, "n1", {.address = "other:1"}); },
      [](const auto& m) { return ChangeNode(m, "n1", {.store_uuid = TestUuid("new disk")}); },
      [](const auto& m) { return ChangeNode(m, "n1", {.maintenance = true}); },
      [](const auto& m) { return ChangeSettings(m, {.min_copies = 1}); },
      [](const auto& m) { return ChangeSettings(m, {.out_after_s = 60}); },
      [](const auto& m) { return ChangeSettings(m, {.repair_bytes_per_second = kGiB}); },
  };
  for (const auto& edit : edits) {
    const ClusterMap next = Must(edit(*map));
    EXPECT_EQ(next.version(), map->version().Next());
    EXPECT_EQ(next.placement_version(), map->placement_version());
    EXPECT_FALSE(next == *map);
  }
}

TEST(MapEdits, AChangeThatChangesNothingGivesBackTheSameMap) {
  const auto map = Nodes(5);
  EXPECT_EQ(Must(UndrainNode(*map, "n1")), *map);
  EXPECT_EQ(Must(ChangeNode(*map, "n1", {.weight_milli = kWeightOne_milli})), *map);
  EXPECT_EQ(Must(ChangeNode(*map, "n1", {})), *map);
  EXPECT_EQ(Must(ChangeSettings(*map, {.replication = 3})), *map);
  EXPECT_EQ(Must(MarkInAutomatically(*map, "n1")), *map);
  const ClusterMap draining = Must(DrainNode(*map, "n1"));
  EXPECT_EQ(Must(DrainNode(draining, "n1")), draining);
}

TEST(MapEdits, ANodeJoinsInItsPlaceAndIsInWhateverItsStateSays) {
  const auto map = TestMap({TestNode("b"), TestNode("d")});
  MapNode node = TestNode("c", "zone-1");
  node.state = NodeState::kOut;
  node.automatic_out = true;
  const ClusterMap next = Must(AddNode(*map, node));
  ASSERT_EQ(next.nodes().size(), 3u);
  EXPECT_EQ(next.nodes()[1], TestNode("c", "zone-1"));
}

TEST(MapEdits, ANodeJoinsOnceAndSoDoesItsStore) {
  const auto map = Nodes(3);
  ExpectRefused(AddNode(*map, TestNode("n1")), "there is a node 'n1' already");
  MapNode twin = TestNode("n9");
  twin.store_uuid = TestUuid("n2");
  ExpectRefused(AddNode(*map, twin), "is that of node 'n2' already");
}

TEST(MapEdits, ADrainThatCouldNotEndIsRefused) {
  ExpectRefused(DrainNode(*Nodes(3), "n1"), "would leave 2 nodes for a replication of 3");
  const ClusterMap one_draining = Must(DrainNode(*Nodes(4), "n1"));
  ExpectRefused(DrainNode(one_draining, "n2"), "would leave 2 nodes");
}

TEST(MapEdits, ANodeThatIsOutCanBeDrainedAndDoesNotComeBackByItself) {
  const ClusterMap out = Must(MarkOutAutomatically(*Nodes(4), "n1", {"n1"}));
  const ClusterMap draining = Must(DrainNode(out, "n1"));
  EXPECT_EQ(draining.Find("n1")->state, NodeState::kDraining);
  EXPECT_EQ(Must(MarkInAutomatically(draining, "n1")), draining);
}

TEST(MapEdits, UndrainBringsADrainingNodeAndOneThatIsOutBackIn) {
  const ClusterMap draining = Must(DrainNode(*Nodes(4), "n1"));
  EXPECT_EQ(Must(UndrainNode(draining, "n1")).Find("n1")->state, NodeState::kIn);
  const ClusterMap out = Must(MarkOutAutomatically(*Nodes(4), "n1", {"n1"}));
  EXPECT_EQ(Must(UndrainNode(out, "n1")).Find("n1")->state, NodeState::kIn);
  EXPECT_FALSE(Must(UndrainNode(out, "n1")).Find("n1")->automatic_out);
}

TEST(MapEdits, OnlyANodeThatIsNotInIsRemoved) {
  const auto map = Nodes(4);
  ExpectRefused(RemoveNode(*map, "n2"), "drain it before");
  const ClusterMap draining = Must(DrainNode(*map, "n2"));
  const ClusterMap removed = Must(RemoveNode(draining, "n2"));
  EXPECT_EQ(removed.Find("n2"), nullptr);
  EXPECT_EQ(removed.nodes().size(), 3u);
  EXPECT_EQ(removed.placement_version().version, removed.version());
}

TEST(MapEdits, ANodeThatIsNotThereIsNotFound) {
  const auto map = Nodes(4);
  for (const auto& result : {DrainNode(*map, "x"), UndrainNode(*map, "x"), RemoveNode(*map, "x"),
                             ChangeNode(*map, "x", {}), MarkOutAutomatically(*map, "x", {}),
                             MarkInAutomatically(*map, "x")}) {
    EXPECT_EQ(GetReason(result.status()), Reason::kNotFound);
    EXPECT_THAT(ErrorText(result.status()), HasSubstr("'x'"));
  }
}

TEST(MapEdits, ValuesOutOfRangeAreRefused) {
  const auto map = Nodes(4);
  ExpectRefused(ChangeNode(*map, "n1", {.weight_milli = 0}), "weight 0");
  ExpectRefused(ChangeNode(*map, "n1", {.store_uuid = TestUuid("n2")}), "another node has too");
  ExpectRefused(ChangeSettings(*map, {.replication = 0}), "replication is 0");
  ExpectRefused(ChangeSettings(*map, {.replication = 1}), "min-copies 2 is above");
  EXPECT_TRUE(ChangeSettings(*map, {.replication = 1, .min_copies = 1}).ok());
  ExpectRefused(ChangeSettings(*map, {.min_copies = 4}), "min-copies 4 is above");
}

TEST(AutomaticOut, OneNodeMayAlwaysGoWhereEnoughStay) {
  EXPECT_EQ(MayMarkOut(*Nodes(4), "n1", {"n1"}), AutomaticOut::kAllowed);
  EXPECT_EQ(MayMarkOut(*Nodes(4), "n1", {}), AutomaticOut::kAllowed);
}

TEST(AutomaticOut, NoNodeGoesWhereFewerThanTheReplicationWouldStay) {
  EXPECT_EQ(MayMarkOut(*Nodes(3), "n1", {"n1"}), AutomaticOut::kTooFewStay);
  EXPECT_EQ(MayMarkOut(*Nodes(3, {.replication = 2}), "n1", {"n1"}), AutomaticOut::kAllowed);
  // Draining nodes do not stay.
  EXPECT_EQ(MayMarkOut(Must(DrainNode(*Nodes(4), "n4")), "n1", {"n1"}), AutomaticOut::kTooFewStay);
}

TEST(AutomaticOut, NoNodeGoesWhileMoreThanThreeTenthsAreMissing) {
  const auto ten = Nodes(10);
  EXPECT_EQ(MayMarkOut(*ten, "n1", {"n1", "n2", "n3"}), AutomaticOut::kAllowed);
  EXPECT_EQ(MayMarkOut(*ten, "n1", {"n1", "n2", "n3", "n4"}), AutomaticOut::kTooManyMissing);
  // 30 % of nine are two whole nodes.
  EXPECT_EQ(MayMarkOut(*Nodes(9), "n1", {"n1", "n2"}), AutomaticOut::kAllowed);
  EXPECT_EQ(MayMarkOut(*Nodes(9), "n1", {"n1", "n2", "n3"}), AutomaticOut::kTooManyMissing);
  EXPECT_EQ(MayMarkOut(*Nodes(5), "n1", {"n1", "n2"}), AutomaticOut::kTooManyMissing);
}

TEST(AutomaticOut, CountsThoseThatAreOutByThemselvesOnceWithTheMissing) {
  ClusterMap map = *Nodes(10);
  for (const char* id : {"n1", "n2"}) map = Must(MarkOutAutomatically(map, id, {"n1", "n2"}));
  EXPECT_EQ(MayMarkOut(map, "n3", {"n1", "n2", "n3"}), AutomaticOut::kAllowed);
  // One that is out counts also once it answers again, until it is back in.
  EXPECT_EQ(MayMarkOut(map, "n3", {"n3", "n4"}), AutomaticOut::kTooManyMissing);
}

TEST(AutomaticOut, LeavesNodesAloneThatAreNotInOrUnderMaintenance) {
  const auto map = Nodes(5);
  EXPECT_EQ(MayMarkOut(Must(DrainNode(*map, "n1")), "n1", {"n1"}), AutomaticOut::kNotIn);
  EXPECT_EQ(MayMarkOut(*map, "x", {"x"}), AutomaticOut::kNotIn);
  EXPECT_EQ(MayMarkOut(Must(ChangeNode(*map, "n1", {.maintenance = true})), "n1", {"n1"}),
            AutomaticOut::kMaintenance);
}

TEST(AutomaticOut, IsMarkedAndUndone) {
  const auto map = Nodes(4);
  const ClusterMap out = Must(MarkOutAutomatically(*map, "n1", {"n1"}));
  EXPECT_EQ(out.Find("n1")->state, NodeState::kOut);
  EXPECT_TRUE(out.Find("n1")->automatic_out);
  const ClusterMap in = Must(MarkInAutomatically(out, "n1"));
  EXPECT_EQ(in.nodes(), map->nodes());
  EXPECT_GT(in.version(), out.version());
  ExpectRefused(MarkOutAutomatically(out, "n2", {"n1", "n2"}), "would be missing or out by itself");
}

}  // namespace
}  // namespace tilekv
