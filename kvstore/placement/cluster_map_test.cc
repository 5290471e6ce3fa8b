#include "kvstore/placement/cluster_map.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/placement/map_edits.h"
#include "kvstore/placement/placement_test_util.h"
#include "tilekv/v1/cluster.pb.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

v1::ClusterMapRecord Record(const ClusterMap& map) {
  v1::ClusterMapRecord record;
  EXPECT_TRUE(record.ParseFromString(map.bytes()));
  return record;
}

std::shared_ptr<const ClusterMap> ThreeNodes() {
  return TestMap({TestNode("n1", "a"), TestNode("n2", "b"), TestNode("n3", "c")});
}

// What Parse says of the record of ThreeNodes after `change`.
absl::Status Parsed(const std::function<void(v1::ClusterMapRecord&)>& change) {
  v1::ClusterMapRecord record = Record(*ThreeNodes());
  change(record);
  return ClusterMap::Parse(record.SerializeAsString()).status();
}

TEST(ClusterMap, BeginsWithoutNodesAtTheFirstVersionOfTheLinesEpoch) {
  auto map = ClusterMap::Make(3, TestUuid("c"), "prod", {});
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->version(), MapVersion::Of(3, 1));
  EXPECT_EQ(map->placement_version().version, map->version());
  EXPECT_EQ(map->cluster_uuid(), TestUuid("c"));
  EXPECT_EQ(map->cluster_name(), "prod");
  EXPECT_EQ(map->settings(), ClusterSettings{});
  EXPECT_TRUE(map->nodes().empty());
}

TEST(ClusterMap, IsTheSameAfterBeingStoredAndRead) {
  const auto map = ThreeNodes();
  auto read = ClusterMap::Parse(map->bytes());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, *map);
  EXPECT_EQ(read->nodes(), map->nodes());
  EXPECT_EQ(read->settings(), map->settings());
  EXPECT_EQ(read->placement_version(), map->placement_version());
}

TEST(ClusterMap, EqualVersionsWithOtherBytesAreOtherMaps) {
  v1::ClusterMapRecord record = Record(*ThreeNodes());
  record.mutable_nodes(0)->set_address("elsewhere:7070");
  auto other = ClusterMap::Parse(record.SerializeAsString());
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->version(), ThreeNodes()->version());
  EXPECT_FALSE(*other == *ThreeNodes());
  EXPECT_EQ(other->placement_version(), ThreeNodes()->placement_version());
}

TEST(ClusterMap, EqualPlacementVersionsWithOtherPlacementDiffer) {
  for (const auto& change : std::vector<std::function<void(v1::ClusterMapRecord&)>>{
           [](auto& r) { r.mutable_nodes(0)->set_weight_milli(1'001); },
           [](auto& r) { r.mutable_nodes(0)->set_host("other"); },
           [](auto& r) { r.mutable_nodes(0)->set_zone("other"); },
           [](auto& r) { r.mutable_nodes(0)->set_state(v1::NODE_STATE_DRAINING); },
           [](auto& r) { r.mutable_nodes(0)->set_id("n0"); }, [](auto& r) { r.set_replication(2); },
           [](auto& r) { r.set_partition_bits(4); }}) {
    v1::ClusterMapRecord record = Record(*ThreeNodes());
    change(record);
    auto other = ClusterMap::Parse(record.SerializeAsString());
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_FALSE(other->placement_version() == ThreeNodes()->placement_version());
  }
}

TEST(ClusterMap, KeepsFieldsItDoesNotKnowThroughAChange) {
  v1::ClusterMapRecord record = Record(*ThreeNodes());
  // A later program's fields: number 1000 of the map and of a node.
  record.GetReflection()->MutableUnknownFields(&record)->AddVarint(1000, 77);
  v1::ClusterMapNode& node = *record.mutable_nodes(1);
  node.GetReflection()->MutableUnknownFields(&node)->AddLengthDelimited(1000, "kept");

  auto map = ClusterMap::Parse(record.SerializeAsString());
  ASSERT_TRUE(map.ok()) << map.status();
  auto changed = AddNode(*map, TestNode("n0"));
  ASSERT_TRUE(changed.ok()) << changed.status();
  const v1::ClusterMapRecord after = Record(*changed);
  const auto& of_map = after.GetReflection()->GetUnknownFields(after);
  ASSERT_EQ(of_map.field_count(), 1);
  EXPECT_EQ(of_map.field(0).varint(), 77u);
  ASSERT_EQ(after.nodes(2).id(), "n2");
  const auto& of_node = after.nodes(2).GetReflection()->GetUnknownFields(after.nodes(2));
  ASSERT_EQ(of_node.field_count(), 1);
  EXPECT_EQ(of_node.field(0).length_delimited(), "kept");
}

TEST(ClusterMap, IsTheBytesOfTheCatalogHoweverTheyWereWritten) {
  // Field 1000 before all others: this program would write it last.
  const std::string bytes = "\xc0\x3e\x4d" + ThreeNodes()->bytes();
  auto map = ClusterMap::Parse(bytes);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->bytes(), bytes);
  EXPECT_EQ(map->hash(), Blake3(AsBytes(bytes)));
}

TEST(ClusterMap, RefusesTheMapOfALaterProgram) {
  const absl::Status status = Parsed([](auto& r) { r.set_feature_level(kFeatureLevel + 1); });
  EXPECT_EQ(GetReason(status), Reason::kStoreMismatch);
  EXPECT_THAT(ErrorText(status), HasSubstr("use a later TileKV"));
}

TEST(ClusterMap, RefusesBytesThatAreNoRecord) {
  EXPECT_EQ(GetReason(ClusterMap::Parse("\xff\xff").status()), Reason::kDataLoss);
  EXPECT_EQ(GetReason(ClusterMap::Parse("").status()), Reason::kDataLoss);
  EXPECT_EQ(GetReason(ClusterMap::Parse(std::string(kMaxClusterMapBytes + 1, '\0')).status()),
            Reason::kDataLoss);
}

TEST(ClusterMap, RefusesRecordsThatAreNoMapAndNamesWhatIsWrong) {
  const struct {
    std::function<void(v1::ClusterMapRecord&)> change;
    std::string says;
  } cases[] = {
      {[](auto& r) { r.set_version(0); }, "version"},
      {[](auto& r) { r.set_placement_version(0); }, "placement's version"},
      {[](auto& r) { r.set_placement_version(r.version() + 1); }, "above the map's"},
      {[](auto& r) { r.set_feature_level(0); }, "feature level"},
      {[](auto& r) { r.set_cluster_uuid("AB"); }, "the cluster's uuid is 'AB'"},
      {[](auto& r) { r.set_cluster_name("a b"); }, "'a b'"},
      {[](auto& r) { r.set_replication(0); }, "replication is 0: it has to be 1 to 7"},
      {[](auto& r) { r.set_replication(8); }, "replication is 8"},
      {[](auto& r) { r.set_min_copies(0); }, "min-copies is 0"},
      {[](auto& r) { r.set_min_copies(4); }, "min-copies 4 is above the replication of 3"},
      {[](auto& r) { r.set_max_object_bytes(1); }, "object limit 1 bytes"},
      {[](auto& r) { r.set_partition_bits(0); }, "partition is 0"},
      {[](auto& r) { r.set_partition_bits(21); }, "partition is 21"},
      {[](auto& r) { r.set_out_after_seconds(0); }, "out-after in seconds is 0"},
      {[](auto& r) { r.set_out_after_seconds(-1); }, "out-after in seconds is -1"},
      {[](auto& r) { r.set_repair_bytes_per_second(1); }, "repair-rate 1 bytes a second"},
      {[](auto& r) { r.mutable_nodes(1)->set_id("n1"); }, "'n1' comes twice"},
      {[](auto& r) { r.mutable_nodes()->SwapElements(0, 1); }, "not in order"},
      {[](auto& r) { r.mutable_nodes(0)->set_id(""); }, "node's name"},
      {[](auto& r) { r.mutable_nodes(0)->set_id("-f"); }, "'-f'"},
      {[](auto& r) { r.mutable_nodes(0)->set_id("a/b"); }, "'a/b'"},
      {[](auto& r) { r.mutable_nodes(0)->set_id(std::string(65, 'a')); }, "1 to 64"},
      {[](auto& r) { r.mutable_nodes(0)->set_store_uuid("x"); }, "the store of node 'n1'"},
      {[](auto& r) { r.mutable_nodes(0)->set_store_uuid(r.nodes(1).store_uuid()); },
       "which another node has too"},
      {[](auto& r) { r.mutable_nodes(0)->set_host(""); }, "'n1' has no host"},
      {[](auto& r) { r.mutable_nodes(0)->set_address(""); }, "'n1' has no address"},
      {[](auto& r) { r.mutable_nodes(0)->set_zone("a b"); }, "'a b' cannot be its zone"},
      {[](auto& r) { r.mutable_nodes(0)->set_host(std::string(256, 'h')); }, "cannot be its host"},
      {[](auto& r) { r.mutable_nodes(0)->set_weight_milli(0); }, "weight 0 thousandths"},
      {[](auto& r) { r.mutable_nodes(0)->set_weight_milli(1'000'001); }, "weight 1000001"},
      {[](auto& r) { r.mutable_nodes(0)->set_state(v1::NODE_STATE_UNSPECIFIED); },
       "unknown state 0"},
      {[](auto& r) { r.mutable_nodes(0)->set_state(static_cast<v1::NodeState>(9)); },
       "unknown state 9"},
      {[](auto& r) { r.mutable_nodes(0)->set_automatic_out(true); }, "is not out"},
  };
  for (const auto& wrong : cases) {
    const absl::Status status = Parsed(wrong.change);
    EXPECT_EQ(GetReason(status), Reason::kDataLoss) << wrong.says;
    EXPECT_THAT(ErrorText(status), HasSubstr(wrong.says));
  }
}

TEST(ClusterMap, FindsNodesByNameAndByStore) {
  const auto map = ThreeNodes();
  ASSERT_NE(map->Find("n2"), nullptr);
  EXPECT_EQ(map->Find("n2")->zone, "b");
  EXPECT_EQ(map->Find("n"), nullptr);
  EXPECT_EQ(map->Find("n4"), nullptr);
  ASSERT_NE(map->FindStore(TestUuid("n3")), nullptr);
  EXPECT_EQ(map->FindStore(TestUuid("n3"))->id, "n3");
  EXPECT_EQ(map->FindStore(TestUuid("n4")), nullptr);
}

TEST(MapVersion, OfALaterEpochIsNewerWhateverItsNumber) {
  EXPECT_LT(MapVersion::Of(1, 1'000'000), MapVersion::Of(2, 1));
  EXPECT_EQ(MapVersion::Of(7, 12).epoch(), 7);
  EXPECT_EQ(MapVersion::Of(7, 12).number(), 12u);
  EXPECT_EQ(MapVersion::Of(7, 12).Next(), MapVersion::Of(7, 13));
}

TEST(Weight, IsReadInThousandthsAndWrittenBack) {
  const std::pair<std::string, uint32_t> cases[] = {
      {"1", 1'000}, {"0.5", 500}, {"2.25", 2'250}, {"0.001", 1}, {"1000", 1'000'000}};
  for (const auto& [text, weight_milli] : cases) {
    auto parsed = ParseWeight(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, weight_milli);
    EXPECT_EQ(FormatWeight(weight_milli), text);
  }
}

TEST(Weight, RefusesWhatIsNoWeight) {
  for (const char* text : {"", ".", "1.", ".5", "0", "0.0", "0.0001", "-1", "+1", "1e3", "1000.001",
                           "1001", "1,5", " 1", "1 ", "99999999999999999999", "0x1", "1.-5"}) {
    EXPECT_EQ(GetReason(ParseWeight(text).status()), Reason::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace tilekv
