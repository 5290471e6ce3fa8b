// The golden vectors of placement (docs/formats.md, "Placement"), which
// placement_vectors_test.py holds a second implementation to.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kvstore/placement/map_edits.h"
#include "kvstore/placement/placement.h"
#include "kvstore/placement/placement_test_util.h"
#include "kvstore/placement/rendezvous.h"
#include "nlohmann/json.hpp"

namespace tilekv {
namespace {

using Json = nlohmann::json;

const Json& Vectors() {
  static const Json kVectors = Json::parse(std::ifstream(TILEKV_PLACEMENT_VECTORS));
  return kVectors;
}

uint64_t FromHex(const Json& hex) { return std::stoull(hex.get<std::string>(), nullptr, 16); }

NodeState StateOf(const Json& node) {
  for (NodeState state : {NodeState::kDraining, NodeState::kOut}) {
    if (node["state"] == NodeStateName(state)) return state;
  }
  return NodeState::kIn;
}

std::shared_ptr<const ClusterMap> MapOf(const Json& vector) {
  std::vector<MapNode> nodes;
  for (const Json& node : vector["nodes"]) {
    nodes.push_back(TestNode(node["id"].get<std::string>()));
    nodes.back().host = node["host"].get<std::string>();
    nodes.back().zone = node["zone"].get<std::string>();
    nodes.back().weight_milli = node["weight_milli"].get<uint32_t>();
    nodes.back().state = StateOf(node);
  }
  return TestMap(nodes, {.replication = vector["replication"].get<uint32_t>(), .min_copies = 1});
}

std::vector<std::string> Names(const ClusterMap& map, const std::vector<NodeIndex>& nodes) {
  std::vector<std::string> names;
  for (NodeIndex node : nodes) names.push_back(map.nodes()[node].id);
  return names;
}

TEST(PlacementVectors, HashesLogarithmsAndCostsAreThoseOfTheFile) {
  ASSERT_GT(Vectors()["costs"].size(), 10u);
  for (const Json& vector : Vectors()["costs"]) {
    const uint64_t seed = NodeSeed(vector["node"].get<std::string>());
    const auto partition = vector["partition"].get<uint32_t>();
    EXPECT_EQ(NodePartitionHash(seed, partition), FromHex(vector["hash"])) << vector;
    EXPECT_EQ(PlacementCost(seed, partition, vector["weight_milli"].get<uint32_t>()),
              vector["cost"].get<uint64_t>())
        << vector;
  }
  for (const Json& vector : Vectors()["minus_log2"]) {
    EXPECT_EQ(MinusLog2(FromHex(vector["hash"])), vector["value"].get<uint64_t>()) << vector;
  }
}

TEST(PlacementVectors, OrdersAndOwnersAreThoseOfTheFile) {
  ASSERT_GT(Vectors()["maps"].size(), 5u);
  for (const Json& vector : Vectors()["maps"]) {
    const Placement placement(MapOf(vector));
    for (const Json& of : vector["partitions"]) {
      SCOPED_TRACE(vector["name"].get<std::string>() + ", partition " + of["partition"].dump());
      const auto partition = of["partition"].get<uint32_t>();
      EXPECT_EQ(Names(placement.map(), placement.OrderOf(partition)),
                of["order"].get<std::vector<std::string>>());
      const Owners owners = placement.OwnersOf(partition);
      EXPECT_EQ(Names(placement.map(), {owners.begin(), owners.end()}),
                of["owners"].get<std::vector<std::string>>());
      EXPECT_EQ(static_cast<int>(owners.pass), of["pass"].get<int>());
    }
  }
}

TEST(PlacementVectors, APartitionIsTheTopBitsOfTheId) {
  for (const Json& vector : Vectors()["partitions_of_ids"]) {
    const Placement placement(
        TestMap({}, {.partition_bits = vector["partition_bits"].get<uint32_t>()}));
    auto id = ObjectId::FromHex(vector["id"].get<std::string>());
    ASSERT_TRUE(id.ok());
    EXPECT_EQ(placement.PartitionOf(*id), vector["partition"].get<uint32_t>()) << vector;
  }
}

}  // namespace
}  // namespace tilekv
