#include "kvstore/placement/placement.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/placement/map_edits.h"
#include "kvstore/placement/placement_test_util.h"

namespace tilekv {
namespace {

// Partitions enough for shares that a tenth can be told of, and few enough for the sanitizers.
const ClusterSettings kSmall = {.partition_bits = 14};

using Map = std::shared_ptr<const ClusterMap>;

// `count` nodes on hosts of their own, in zones z0, z1, ... in turn.
std::vector<MapNode> SomeNodes(int count, int zones = 1) {
  std::vector<MapNode> nodes;
  for (int i = 0; i < count; ++i) {
    nodes.push_back(TestNode("node-" + std::to_string(i), "z" + std::to_string(i % zones)));
  }
  return nodes;
}

Map Edited(absl::StatusOr<ClusterMap> map) {
  EXPECT_TRUE(map.ok()) << map.status();
  return std::make_shared<const ClusterMap>(*std::move(map));
}

using Names = std::set<std::string>;
Names OwnerNames(const Placement& placement, uint32_t partition) {
  Names names;
  const Owners owners = placement.OwnersOf(partition);
  for (NodeIndex node : owners) names.insert(placement.map().nodes()[node].id);
  return names;
}

// Copies that one placement has and the other has not, of all partitions.
uint64_t CopiesMoved(const Placement& before, const Placement& after) {
  uint64_t moved = 0;
  for (uint32_t partition = 0; partition < before.partitions(); ++partition) {
    const Names old_owners = OwnerNames(before, partition);
    for (const std::string& name : OwnerNames(after, partition))
      moved += !old_owners.contains(name);
  }
  return moved;
}

std::vector<uint64_t> CopiesOfEach(const Placement& placement) {
  std::vector<uint64_t> copies(placement.map().nodes().size());
  for (uint32_t partition = 0; partition < placement.partitions(); ++partition) {
    for (NodeIndex node : placement.OwnersOf(partition)) ++copies[node];
  }
  return copies;
}

TEST(Placement, NodesOfEqualWeightOwnEqualShares) {
  const Placement placement(TestMap(SomeNodes(10)));
  const double ideal = 3.0 * placement.partitions() / 10;
  for (uint64_t copies : CopiesOfEach(placement)) EXPECT_NEAR(copies, ideal, 0.03 * ideal);
}

TEST(Placement, FirstOwnersFollowTheWeightsExactly) {
  std::vector<MapNode> nodes = SomeNodes(5);
  const std::array<uint32_t, 5> weights = {500, 1'000, 1'000, 2'500, 5'000};
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].weight_milli = weights[i];
  const Placement placement(TestMap(nodes, {.replication = 1, .min_copies = 1}));
  const std::vector<uint64_t> copies = CopiesOfEach(placement);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const double share = weights[i] / 10'000.0;
    const double sigma = std::sqrt(placement.partitions() * share * (1 - share));
    EXPECT_NEAR(copies[i], placement.partitions() * share, 4 * sigma) << nodes[i].id;
  }
}

TEST(Placement, NodesWithSimilarNamesAreRankedIndependently) {
  // Of 24 orders of four nodes each comes as often as any other.
  const Placement placement(TestMap(SomeNodes(4), kSmall));
  std::map<std::vector<NodeIndex>, uint64_t> seen;
  for (uint32_t partition = 0; partition < placement.partitions(); ++partition) {
    ++seen[placement.OrderOf(partition)];
  }
  const double ideal = placement.partitions() / 24.0;
  ASSERT_EQ(seen.size(), 24u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, ideal, 4 * std::sqrt(ideal));
}

TEST(Placement, AFourthNodeTakesItsShareAndNothingElseMoves) {
  const Map three = TestMap(SomeNodes(3), kSmall);
  const Map four = Edited(AddNode(*three, TestNode("node-3", "z0")));
  const Placement before(three), after(four);
  const double ideal = 3.0 * before.partitions() / 4;
  const uint64_t moved = CopiesMoved(before, after);
  EXPECT_LE(moved, 1.1 * ideal);
  EXPECT_EQ(moved, CopiesOfEach(after)[3]);  // nothing moves between the others
}

TEST(Placement, ANodeThatJoinsMovesAtMostOneTenthMoreThanItsShare) {
  struct Case {
    int nodes, zones;
    uint32_t weight_milli;
  };
  for (const Case& c : {Case{10, 1, 1'000}, Case{12, 3, 1'000}, Case{12, 2, 1'000},
                        Case{20, 5, 1'000}, Case{10, 1, 500}, Case{10, 1, 3'000}}) {
    const Map map = TestMap(SomeNodes(c.nodes, c.zones), kSmall);
    MapNode joining = TestNode("node-new", "z0");
    joining.weight_milli = c.weight_milli;
    const Map next = Edited(AddNode(*map, joining));
    const Placement before(map), after(next);
    const uint64_t taken = CopiesOfEach(after)[next->Find("node-new") - next->nodes().data()];
    const double share = c.weight_milli / (c.nodes * 1'000.0 + c.weight_milli);
    EXPECT_LE(taken, 1.1 * share * 3 * before.partitions()) << c.nodes << " nodes, " << c.zones;
    EXPECT_LE(CopiesMoved(before, after), 1.1 * taken) << c.nodes << " nodes, " << c.zones;
  }
}

TEST(Placement, ANodeThatLeavesMovesOnlyWhatItOwned) {
  const Map map = TestMap(SomeNodes(8), kSmall);
  const Placement before(map), after(Edited(DrainNode(*map, "node-5")));
  EXPECT_EQ(CopiesMoved(before, after), CopiesOfEach(before)[5]);
}

TEST(Placement, AGrowingWeightTakesAndNeverGives) {
  const Map map = TestMap(SomeNodes(6), kSmall);
  const Placement before(map);
  const Placement after(Edited(ChangeNode(*map, "node-2", {.weight_milli = 1'500})));
  for (uint32_t partition = 0; partition < before.partitions(); ++partition) {
    Names old_owners = OwnerNames(before, partition), owners = OwnerNames(after, partition);
    if (old_owners == owners) continue;
    EXPECT_TRUE(owners.contains("node-2") && !old_owners.contains("node-2")) << partition;
  }
}

TEST(Placement, OwnersAreInZonesOfTheirOwnWhereThereAreEnough) {
  const Placement placement(TestMap(SomeNodes(9, 3), kSmall));
  for (uint32_t partition = 0; partition < placement.partitions(); ++partition) {
    const Owners owners = placement.OwnersOf(partition);
    std::set<std::string> zones;
    for (NodeIndex node : owners) zones.insert(placement.map().nodes()[node].zone);
    ASSERT_EQ(zones.size(), 3u);
    ASSERT_EQ(owners.pass, Owners::Pass::kNewZone);
  }
}

TEST(Placement, OwnersAreOnHostsOfTheirOwnWhereZonesDoNotSuffice) {
  std::vector<MapNode> nodes = SomeNodes(8, 2);
  for (size_t i = 0; i < nodes.size(); ++i)
    nodes[i].host = "host-" + std::to_string(i / 4 * 2 + i % 2);
  const Placement placement(TestMap(nodes, kSmall));
  for (uint32_t partition = 0; partition < placement.partitions(); ++partition) {
    const Owners owners = placement.OwnersOf(partition);
    std::set<std::string> zones, hosts;
    for (NodeIndex node : owners) {
      zones.insert(placement.map().nodes()[node].zone);
      hosts.insert(placement.map().nodes()[node].host);
    }
    ASSERT_EQ(zones.size(), 2u);
    ASSERT_EQ(hosts.size(), 3u);
    ASSERT_EQ(owners.pass, Owners::Pass::kNewHost);
  }
}

TEST(Placement, AnyNodeIsAnOwnerWhereHostsDoNotSuffice) {
  std::vector<MapNode> nodes = SomeNodes(4);
  for (MapNode& node : nodes) node.host = "the-only-one";
  const Placement placement(TestMap(nodes, kSmall));
  const Owners owners = placement.OwnersOf(17);
  EXPECT_EQ(owners.count, 3);
  EXPECT_EQ(owners.pass, Owners::Pass::kAny);
}

TEST(Placement, WhereFewerThanTheReplicationAreInAllOfThemOwnAndItSaysSo) {
  const Placement two(TestMap(SomeNodes(2), kSmall));
  EXPECT_EQ(OwnerNames(two, 5), (Names{"node-0", "node-1"}));
  EXPECT_FALSE(two.HasAllOwners(two.OwnersOf(5)));
  const Placement three(TestMap(SomeNodes(3), kSmall));
  EXPECT_TRUE(three.HasAllOwners(three.OwnersOf(5)));
  const Placement none(TestMap({}));
  EXPECT_EQ(none.OwnersOf(5).count, 0);
  EXPECT_EQ(none.OwnersOf(5).pass, Owners::Pass::kNone);
}

TEST(Placement, NodesThatAreNotInOwnNothingAndKeepTheirRank) {
  std::vector<MapNode> nodes = SomeNodes(6);
  const Placement all_in(TestMap(nodes, kSmall));
  nodes[1].state = NodeState::kDraining;
  nodes[4].state = NodeState::kOut;
  const Placement placement(TestMap(nodes, kSmall));
  for (uint32_t partition = 0; partition < placement.partitions(); partition += 97) {
    const Owners owners = placement.OwnersOf(partition);
    EXPECT_EQ(owners.count, 3);
    EXPECT_FALSE(owners.Contains(1) || owners.Contains(4));
    EXPECT_EQ(placement.OrderOf(partition), all_in.OrderOf(partition));
  }
}

TEST(Placement, OwnersThenOthersNamesEveryNodeOnce) {
  std::vector<MapNode> nodes = SomeNodes(7, 3);
  nodes[2].state = NodeState::kOut;
  const Placement placement(TestMap(nodes, kSmall));
  for (uint32_t partition = 0; partition < 100; ++partition) {
    const std::vector<NodeIndex> all = placement.OwnersThenOthers(partition);
    EXPECT_THAT(all, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6));
    const Owners owners = placement.OwnersOf(partition);
    EXPECT_TRUE(std::equal(owners.begin(), owners.end(), all.begin()));
  }
}

TEST(Placement, OwnersAreAFunctionOfTheMapAloneWhoeverAsksAndHowOften) {
  const Map map = TestMap(SomeNodes(9, 3), kSmall);
  auto copy = ClusterMap::Parse(map->bytes());
  ASSERT_TRUE(copy.ok());
  const Placement first(map), second(std::make_shared<const ClusterMap>(*copy));
  // What is asked first must not matter either.
  for (uint32_t partition = 0; partition < first.partitions(); ++partition)
    first.OwnersOf(partition);
  for (uint32_t partition = second.partitions(); partition-- > 0;) {
    ASSERT_EQ(second.OwnersOf(partition), first.OwnersOf(partition));
    ASSERT_EQ(second.OwnersOf(partition), first.OwnersOf(partition));
  }
}

TEST(Placement, ManyThreadsThatAskAtOnceGetTheSameOwners) {
  const Map map = TestMap(SomeNodes(9, 3), {.partition_bits = 10});
  const Placement expected(map), shared(map);
  for (uint32_t partition = 0; partition < expected.partitions(); ++partition) {
    expected.OwnersOf(partition);
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (uint32_t partition = 0; partition < shared.partitions(); ++partition) {
        if (!(shared.OwnersOf(partition) == expected.OwnersOf(partition))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tilekv
