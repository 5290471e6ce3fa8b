// The check of a cluster, over four nodes in memory: each kind of finding, and none where all is
// well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/base/status.h"
#include "kvstore/catalog/memory_catalog.h"
#include "kvstore/cluster/cluster_survey.h"
#include "kvstore/cluster/memory_cluster.h"
#include "kvstore/node/cluster_admin.h"
#include "kvstore/node/local_node.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/object/tree.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

// Tells what the test says.
class ToldAdmin : public ClusterAdmin {
 public:
  const std::string& cluster_name() const override { return name_; }
  const std::string& node_id() const override { return name_; }
  absl::Status CheckRoomForNames() override { return absl::OkStatus(); }
  absl::StatusOr<v1::ClusterStatusResponse> Status(const CallContext&) override { return status; }
  absl::StatusOr<v1::ChangeClusterResponse> Change(const v1::ChangeClusterRequest&,
                                                   const CallContext&) override {
    return v1::ChangeClusterResponse();
  }

  v1::ClusterStatusResponse status;

 private:
  const std::string name_ = "a";
};

MemoryClusterOptions FourNodes() {
  MemoryClusterOptions options{.nodes = {"a", "b", "c", "d"}};
  options.settings.partition_bits = 4;
  return options;
}

class ClusterCheckTest : public testing::Test {
 protected:
  ClusterCheckTest() {
    NodeOptions options;
    options.clock = &cluster_.clock();
    options.random = &random_;
    options.cluster = &admin_;
    options.survey = &survey_;
    node_ = *LocalNode::Create(cluster_.objects(), catalog_, options);
  }

  struct Model {
    ObjectRef tile;
    ObjectRef root;
  };
  ObjectRef Put(const v1::BeginSessionResponse& session, uint8_t level,
                const std::string& content) {
    ObjectPut put;
    put.session_rev = {session.session_rev()};
    put.ref = RefOf(level, AsBytes(content));
    put.content = AsBytes(content);
    auto stored = node_->PutObject(put);
    EXPECT_TRUE(stored.ok()) << stored.status();
    return put.ref;
  }
  Model Import(const std::string& name, const std::string& content) {
    const v1::BeginSessionResponse session = *node_->BeginSession({});
    Model model;
    model.tile = Put(session, 0, content);
    Tree tree;
    tree.level = 3;
    tree.type = TreeType::kManifestRoot;
    tree.children.push_back(model.tile);
    model.root = Put(session, 3, EncodeTree(tree));
    v1::CommitRequest request;
    request.set_token(session.token());
    request.set_session_rev(session.session_rev());
    request.set_commit_id(random_.Bytes(16));
    request.set_ns("default");
    request.set_name(name);
    ObjectRefToWire(model.root, request.mutable_root());
    auto committed = node_->Commit(request);
    EXPECT_TRUE(committed.ok() && committed->applied()) << committed.status();
    v1::EndSessionRequest end;
    end.set_token(session.token());
    EXPECT_TRUE(node_->EndSession(end).ok());
    return model;
  }
  v1::ClusterCheckResponse Check(bool deep = false) {
    v1::ClusterCheckRequest request;
    request.set_deep(deep);
    auto response = node_->ClusterCheck(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::ClusterCheckResponse();
  }
  void RemoveAt(const std::string& node, const ObjectId& id) {
    ASSERT_TRUE(cluster_.node(node)
                    .store->DeleteAllBelow(kDefaultDomain, std::vector{id}, {UINT64_MAX})
                    .ok());
  }
  void RemoveEverywhere(const ObjectId& id) {
    for (const auto& node : cluster_.nodes()) RemoveAt(node->id, id);
  }
  // All findings in one text, for HasSubstr.
  static std::string Text(const v1::ClusterCheckResponse& response) {
    std::string text;
    for (const v1::ClusterFinding& finding : response.findings()) {
      text += v1::ClusterFinding::Severity_Name(finding.severity()) + " " + finding.kind() + " " +
              finding.where() + ": " + finding.text() + "\n";
    }
    return text;
  }

  MemoryCluster cluster_{FourNodes()};
  SeededRandom random_{11};
  MemoryCatalog catalog_{&cluster_.clock(), &random_};
  InlineExecutor executor_;
  ToldAdmin admin_;
  NodeOutlook& outlook_ = *cluster_.node("a").outlook;
  ClusterSurvey survey_{*cluster_.node("a").store, outlook_, outlook_, &admin_, executor_};
  std::unique_ptr<LocalNode> node_;
};

TEST_F(ClusterCheckTest, NothingIsFoundWhereAllIsWell) {
  for (int i = 0; i < 30; ++i) Import("m" + std::to_string(i), "tile " + std::to_string(i));
  for (bool deep : {false, true}) {
    const v1::ClusterCheckResponse response = Check(deep);
    EXPECT_EQ(response.findings_size(), 0) << Text(response);
    EXPECT_EQ(response.objects(), 30u * 3);
    EXPECT_EQ(response.copies(), 30u * 3 * 3);
    EXPECT_EQ(response.versions(), 30u);
    EXPECT_EQ(response.verified_copies(), deep ? 30u * 3 * 3 : 0u);
  }
}

TEST_F(ClusterCheckTest, CopiesThatAreTooFewOrTooManyAreCounted) {
  const Model model = Import("m", "tile");
  const std::vector<std::string> order = cluster_.OrderOf(model.tile.id);
  RemoveAt(order[0], model.tile.id);
  v1::ClusterCheckResponse response = Check();
  EXPECT_EQ(response.short_objects(), 1u);
  EXPECT_EQ(response.degraded_count(), 1u);
  EXPECT_THAT(Text(response), HasSubstr("DEGRADED copies fewer good copies than the replication"));
  EXPECT_THAT(Text(response), HasSubstr(model.tile.id.Short()));

  RemoveAt(order[1], model.tile.id);
  EXPECT_THAT(Text(Check()), HasSubstr("fewer good copies than min-copies"));
  // At another node it counts as a copy, and not as one of an owner's.
  cluster_.PutAt(order[3], "tile");
  response = Check();
  EXPECT_EQ(response.short_objects(), 1u);
  EXPECT_EQ(response.spare_objects(), 1u);
  EXPECT_THAT(Text(response), HasSubstr("NOTE spare"));
  EXPECT_THAT(Text(response), HasSubstr("fewer good copies than the replication"));
  EXPECT_EQ(response.loss_count(), 0u);
}

TEST_F(ClusterCheckTest, WhatNoNodeHasIsToldWithEveryNameThatNeedsIt) {
  const Model one = Import("one", "tile");
  const Model other = Import("other", "tile");
  Import("whole", "another tile");
  ASSERT_EQ(one.tile, other.tile);
  RemoveEverywhere(one.tile.id);
  const v1::ClusterCheckResponse response = Check();
  EXPECT_EQ(response.loss_count(), 2u);
  EXPECT_THAT(Text(response), HasSubstr("LOSS missing default/one@1: object " + one.tile.id.Hex()));
  EXPECT_THAT(Text(response), HasSubstr("LOSS missing default/other@1: object"));
  EXPECT_EQ(response.findings(0).severity(), v1::ClusterFinding::LOSS);
  EXPECT_EQ(Text(response).find("whole"), std::string::npos);
}

TEST_F(ClusterCheckTest, ATreeThatIsGoneIsTold) {
  const Model model = Import("m", "tile");
  RemoveEverywhere(model.root.id);
  const v1::ClusterCheckResponse response = Check();
  EXPECT_EQ(response.loss_count(), 1u) << Text(response);
  EXPECT_THAT(Text(response), HasSubstr("LOSS missing default/m@1: object " + model.root.id.Hex()));
  EXPECT_EQ(response.unused_objects(), 1u) << "the tile, which nothing leads to any more";
}

TEST_F(ClusterCheckTest, VersionsThatAreDeletedAndNotPurgedNeedTheirObjects) {
  Import("m", "tile");
  Import("n", "another tile");
  v1::DeleteVersionsRequest request;
  request.set_ns("default");
  request.set_name("m");
  request.set_all(true);
  ASSERT_EQ(node_->DeleteVersions(request)->deleted_size(), 1);
  EXPECT_EQ(Check().unused_objects(), 0u);
  request.set_name("n");
  request.set_now(true);
  ASSERT_EQ(node_->DeleteVersions(request)->deleted_size(), 1);
  const v1::ClusterCheckResponse response = Check();
  EXPECT_EQ(response.unused_objects(), 3u);
  EXPECT_EQ(response.loss_count() + response.degraded_count(), 0u) << Text(response);
}

TEST_F(ClusterCheckTest, OnlyADeepCheckFindsRotAndThenItCounts) {
  const Model model = Import("m", std::string(1'000, 'x'));
  const std::vector<std::string> order = cluster_.OrderOf(model.tile.id);
  cluster_.node(order[0]).store->FlipBit(kDefaultDomain, model.tile.id, 500);
  EXPECT_EQ(Check().findings_size(), 0);
  v1::ClusterCheckResponse response = Check(true);
  EXPECT_EQ(response.damaged_copies(), 1u);
  EXPECT_EQ(response.short_objects(), 1u);
  EXPECT_EQ(response.loss_count(), 0u) << Text(response);
  EXPECT_THAT(Text(response), HasSubstr("DEGRADED damaged"));
  for (size_t i : {1, 2}) {
    cluster_.node(order[i]).store->FlipBit(kDefaultDomain, model.tile.id, 500);
  }
  response = Check(true);
  EXPECT_EQ(response.loss_count(), 1u) << Text(response);
  EXPECT_THAT(Text(response), HasSubstr("default/m@1"));
}

TEST_F(ClusterCheckTest, WhatOnlyANodeThatIsAwayMayHaveIsNotTakenForLost) {
  const Model model = Import("m", "tile");
  const std::vector<std::string> order = cluster_.OrderOf(model.tile.id);
  std::string away = order[0];
  if (away == "a") away = order[1];
  for (const auto& node : cluster_.nodes()) {
    if (node->id != away) RemoveAt(node->id, model.tile.id);
  }
  cluster_.node(away).faults.down = true;
  v1::ClusterCheckResponse response = Check();
  EXPECT_EQ(response.loss_count(), 0u) << Text(response);
  EXPECT_THAT(Text(response), HasSubstr("DEGRADED unreachable default/m@1"));
  EXPECT_THAT(Text(response), HasSubstr("DEGRADED node " + away + ": its copies are not counted"));
  ASSERT_EQ(response.not_reached_size(), 1);
  EXPECT_THAT(response.not_reached(0), HasSubstr(away + ": "));
  cluster_.node(away).faults.down = false;
  EXPECT_EQ(Check().short_objects(), 1u);
}

TEST_F(ClusterCheckTest, NodesAndTheMapAreLookedAt) {
  for (const char* id : {"a", "b", "c", "d"}) {
    v1::ClusterMapNode& node = *admin_.status.mutable_map()->add_nodes();
    node.set_id(id);
    node.set_state(v1::NODE_STATE_IN);
    v1::ClusterNodeStatus& status = *admin_.status.add_nodes();
    status.set_registered(true);
    status.mutable_registration()->set_health(v1::NODE_HEALTH_GOOD);
  }
  EXPECT_EQ(Check().findings_size(), 0);
  admin_.status.mutable_nodes(0)->mutable_registration()->set_health(v1::NODE_HEALTH_FULL);
  admin_.status.mutable_nodes(1)->set_registered(false);
  admin_.status.mutable_nodes(1)->set_missing_seconds(7);
  admin_.status.mutable_map()->mutable_nodes(2)->set_state(v1::NODE_STATE_DRAINING);
  admin_.status.mutable_nodes(3)->mutable_registration()->set_store_uuid("other");
  admin_.status.mutable_catalog()->set_error("does not answer");
  v1::ClusterCheckResponse response = Check();
  EXPECT_THAT(Text(response), HasSubstr("DEGRADED node a: has a full disk"));
  EXPECT_THAT(Text(response), HasSubstr("DEGRADED node b: is away, for 7 s"));
  EXPECT_THAT(Text(response), HasSubstr("NOTE node c: is draining"));
  EXPECT_THAT(Text(response), HasSubstr("DEGRADED node d: is here with the store other"));
  EXPECT_THAT(Text(response), HasSubstr("DEGRADED map catalog: does not answer"));
  EXPECT_EQ(response.degraded_count(), 4u);
  cluster_.SetMap({{"c", NodeState::kDraining}, {"d", NodeState::kOut}});
  EXPECT_THAT(Text(Check()), HasSubstr("3 copies are asked for, and 2 nodes are in"));
}

TEST_F(ClusterCheckTest, FindingsAreBoundedAndCountedAll) {
  for (int i = 0; i < 1'200; ++i) {
    const Model model = Import("m" + std::to_string(i), "tile " + std::to_string(i));
    RemoveEverywhere(model.tile.id);
  }
  const v1::ClusterCheckResponse response = Check();
  EXPECT_EQ(response.loss_count(), 1'200u);
  EXPECT_EQ(response.findings_size(), 1'000);
}

// More rows than a page has, in different places at each node.
TEST_F(ClusterCheckTest, PagesOfAllNodesAreMergedInOrder) {
  for (int i = 0; i < 3'000; ++i) {
    const std::string content = "object " + std::to_string(i);
    for (const auto& node : cluster_.nodes()) {
      if (random_.Next() % 3 == 0) cluster_.PutAt(node->id, content);
    }
  }
  std::vector<ObjectId> ids;
  uint64_t copies = 0;
  v1::ClusterCheckResponse response;
  ASSERT_TRUE(survey_
                  .ForEachObject(kDefaultDomain,
                                 [&](const SurveyedObject& object) {
                                   ids.push_back(object.ref.id);
                                   copies += object.good;
                                   return absl::OkStatus();
                                 },
                                 response, {})
                  .ok());
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  uint64_t expected = 0;
  for (const auto& node : cluster_.nodes()) expected += node->store->Usage()->objects;
  EXPECT_EQ(copies, expected);
  EXPECT_GT(cluster_.node("b").store->Usage()->objects, 0u);
}

}  // namespace
}  // namespace tilekv
