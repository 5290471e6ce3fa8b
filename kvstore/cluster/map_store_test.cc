#include "kvstore/cluster/map_store.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/cluster/cluster_join.h"
#include "kvstore/cluster/cluster_test_util.h"
#include "kvstore/placement/map_edits.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

absl::StatusOr<ClusterMap> WithReplication(const ClusterMap& map, uint32_t replication) {
  return ChangeSettings(map, {.replication = replication});
}

TEST(MapStore, OfTwoThatMakeAClusterOneWins) {
  TestCluster cluster;
  auto maps = cluster.OpenMaps();
  EXPECT_FALSE((*maps->Read()).has_value());
  auto made = InitCluster(*maps, "prod", {.replication = 2, .min_copies = 1}, cluster.random);
  ASSERT_TRUE(made.ok()) << made.status();
  auto again = InitCluster(*maps, "prod", {}, cluster.random);
  EXPECT_EQ(GetReason(again.status()), Reason::kStoreMismatch);
  auto read = maps->Read();
  ASSERT_TRUE(read.ok() && read->has_value());
  EXPECT_EQ(*(*read)->map, *made);
  EXPECT_EQ(made->version().epoch(), maps->epoch());
}

TEST(MapStore, AWriteOnAnOlderMapChangesNothing) {
  TestCluster cluster;
  auto maps = cluster.OpenMaps();
  const StoredMap seen = cluster.Init(*maps, {"n1", "n2", "n3"});
  auto first = WithReplication(*seen.map, 2);
  auto second = WithReplication(*seen.map, 4);
  EXPECT_EQ(*maps->Replace(seen, *first), true);
  EXPECT_EQ(*maps->Replace(seen, *second), false);
  EXPECT_EQ((*maps->Read())->map->settings().replication, 2u);
}

TEST(MapStore, AnEditBeginsAgainWhereAnotherWasFirst) {
  TestCluster cluster;
  auto maps = cluster.OpenMaps();
  cluster.Init(*maps, {"n1", "n2", "n3", "n4"});
  int tries = 0;
  auto edited = maps->Edit([&](const ClusterMap& map) {
    if (++tries == 1) {
      EXPECT_TRUE(maps->Edit([](const ClusterMap& now) { return DrainNode(now, "n1"); }).ok());
    }
    return WithReplication(map, 2);
  });
  ASSERT_TRUE(edited.ok()) << edited.status();
  EXPECT_EQ(tries, 2);
  EXPECT_TRUE(edited->changed);
  EXPECT_EQ(edited->stored.map->settings().replication, 2u);
  EXPECT_EQ(edited->stored.map->Find("n1")->state, NodeState::kDraining);
}

TEST(MapStore, AnEditThatChangesNothingWritesNothing) {
  TestCluster cluster;
  auto maps = cluster.OpenMaps();
  const StoredMap seen = cluster.Init(*maps, {"n1"});
  auto edited = maps->Edit([](const ClusterMap& map) { return UndrainNode(map, "n1"); });
  ASSERT_TRUE(edited.ok());
  EXPECT_FALSE(edited->changed);
  EXPECT_EQ(edited->stored.revision, seen.revision);
}

TEST(MapStore, ALineThatHasChangedRefusesEveryWrite) {
  TestCluster cluster;
  auto maps = cluster.OpenMaps();
  cluster.Init(*maps, {"n1"});
  const std::string line = (*cluster.catalog.Get(kLineKey))->value;
  ASSERT_TRUE(
      cluster.catalog.Txn({.compares = {}, .writes = {CatalogWrite::Put(kLineKey, line)}}).ok());
  auto edited = maps->Edit([](const ClusterMap& map) { return WithReplication(map, 2); });
  EXPECT_EQ(GetReason(edited.status()), Reason::kCatalogRewound);
}

TEST(Join, ANodeComesInOnceAndItsNewAddressFollows) {
  TestCluster cluster;
  auto maps = cluster.OpenMaps();
  cluster.Init(*maps, {});
  JoiningNode node = TestCluster::Joining("n1");
  node.zone = "a";
  node.weight_milli = 2'000;
  ASSERT_TRUE(JoinCluster(*maps, node).ok());
  node.address = "elsewhere:7070";
  node.zone = "b";  // of no weight once it is in
  auto joined = JoinCluster(*maps, node);
  ASSERT_TRUE(joined.ok());
  ASSERT_EQ(joined->map->nodes().size(), 1u);
  const MapNode& found = *joined->map->Find("n1");
  EXPECT_EQ(found.address, "elsewhere:7070");
  EXPECT_EQ(found.zone, "a");
  EXPECT_EQ(found.weight_milli, 2'000u);
  EXPECT_EQ(found.state, NodeState::kIn);
}

TEST(Join, ADrainingNodeThatStartsAgainGoesOnDraining) {
  TestCluster cluster;
  auto maps = cluster.OpenMaps();
  cluster.Init(*maps, {"n1", "n2", "n3", "n4"});
  ASSERT_TRUE(maps->Edit([](const ClusterMap& map) { return DrainNode(map, "n1"); }).ok());
  auto joined = JoinCluster(*maps, TestCluster::Joining("n1"));
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(joined->map->Find("n1")->state, NodeState::kDraining);
}

TEST(Join, AnIdOfAnotherStoreIsRefusedWithARemedyThatWorks) {
  TestCluster cluster;
  auto maps = cluster.OpenMaps();
  cluster.Init(*maps, {"n1"});
  JoiningNode node = TestCluster::Joining("n1");
  node.store_uuid = TestUuid("a new disk");
  auto joined = JoinCluster(*maps, node);
  EXPECT_EQ(GetReason(joined.status()), Reason::kInvalidArgument);
  EXPECT_THAT(std::string(joined.status().message()),
              HasSubstr("tilekv node set n1 store=" + node.store_uuid));
  ASSERT_TRUE(maps->Edit([&](const ClusterMap& map) {
                    return ChangeNode(map, "n1", {.store_uuid = node.store_uuid});
                  })
                  .ok());
  EXPECT_TRUE(JoinCluster(*maps, node).ok());
}

TEST(Join, AStoreKeepsItsIdAndIsNeverRenamed) {
  TestCluster cluster;
  auto maps = cluster.OpenMaps();
  const StoredMap stored = cluster.Init(*maps, {"n1"});
  JoiningNode node = TestCluster::Joining("n1");
  node.id = "";
  EXPECT_EQ(*IdentifyNode(*stored.map, node), "n1");
  node.id = "n2";
  EXPECT_EQ(GetReason(IdentifyNode(*stored.map, node).status()), Reason::kInvalidArgument);
}

TEST(Join, AnIdIsMadeOfHostAndStoreWhereNoneIsGiven) {
  TestCluster cluster;
  auto maps = cluster.OpenMaps();
  const StoredMap stored = cluster.Init(*maps, {});
  JoiningNode node{
      .id = "", .store_uuid = TestUuid("s"), .address = "h:7070", .host = "-rack_7.example.org"};
  EXPECT_EQ(*IdentifyNode(*stored.map, node), "rack7-" + TestUuid("s").substr(0, 6));
  node.host = std::string(200, 'x');
  EXPECT_EQ(IdentifyNode(*stored.map, node)->size(), kMaxNodeIdBytes);
  EXPECT_TRUE(JoinCluster(*maps, node).ok());
}

}  // namespace
}  // namespace tilekv
