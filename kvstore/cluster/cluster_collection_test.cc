// The collector over three nodes in memory: what is reachable stays, what is not goes from all.
#include "kvstore/cluster/cluster_collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "kvstore/base/crash_point.h"
#include "kvstore/base/simulated_disk.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/catalog/memory_catalog.h"
#include "kvstore/cluster/memory_cluster.h"
#include "kvstore/node/cluster_admin.h"
#include "kvstore/node/local_node.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/object/tree.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr int64_t kSecondMicros = 1'000'000;

// Of a cluster that nobody administers.
class NoAdmin : public ClusterAdmin {
 public:
  const std::string& cluster_name() const override { return name_; }
  const std::string& node_id() const override { return name_; }
  absl::Status CheckRoomForNames() override { return absl::OkStatus(); }
  absl::StatusOr<v1::ClusterStatusResponse> Status(const CallContext&) override {
    return v1::ClusterStatusResponse();
  }
  absl::StatusOr<v1::ChangeClusterResponse> Change(const v1::ChangeClusterRequest&,
                                                   const CallContext&) override {
    return v1::ChangeClusterResponse();
  }

 private:
  const std::string name_ = "a";
};

MemoryClusterOptions ThreeNodes() {
  MemoryClusterOptions options;
  options.settings.partition_bits = 6;
  return options;
}

// Nodes a, b and c with a catalog and a disk for their rounds; clients work through a.
class ClusterCollectionTest : public testing::Test {
 protected:
  ClusterCollectionTest() {
    for (const char* id : {"a", "b", "c"}) StartRounds(id);
    collection_ = NewCollection("a");
    node_ = NewNode(*collection_);
  }
  ~ClusterCollectionTest() override { SetCrashHandler(nullptr); }

  // As a node that was started again.
  void StartRounds(const std::string& id) {
    cluster_.node(id).rounds = nullptr;
    rounds_.erase(id);
    auto store = RoundStore::Open(*disk_.file_system(), "/" + id, nullptr);
    ASSERT_TRUE(store.ok()) << store.status();
    stores_[id] = *std::move(store);
    rounds_[id] = std::make_unique<NodeRounds>(*stores_[id], *cluster_.node(id).store, catalog_,
                                               [this] { return Line(); });
    cluster_.node(id).rounds = rounds_[id].get();
  }
  std::string Line() {
    v1::LineRecord line;
    EXPECT_TRUE(line.ParseFromString((*catalog_.Get(kLineKey))->value));
    return line.line_id();
  }
  std::unique_ptr<ClusterCollection> NewCollection(const std::string& id) {
    ClusterCollectionOptions options;
    options.executor = &executor_;
    options.clock = &cluster_.clock();
    options.part_bytes = 128;  // so that a few objects have several parts
    NodeOutlook& outlook = *cluster_.node(id).outlook;
    return std::make_unique<ClusterCollection>(catalog_, *rounds_[id], outlook, outlook, options);
  }
  std::unique_ptr<LocalNode> NewNode(ClusterCollection& collection) {
    NodeOptions options;
    options.clock = &cluster_.clock();
    options.random = &random_;
    options.cluster = &admin_;
    options.collection = &collection;
    options.holds_rounds = true;
    return *LocalNode::Create(cluster_.objects(), catalog_, options);
  }
  static void Once(const std::string& step, std::function<void()> hook) {
    auto done = std::make_shared<bool>(false);
    SetCrashHandler([step, hook = std::move(hook), done](std::string_view reached) {
      if (reached != step || *done) return;
      *done = true;
      hook();
    });
  }
  void Advance(int64_t seconds) { cluster_.clock().Advance(seconds * kSecondMicros); }

  v1::BeginSessionResponse Begin() { return *node_->BeginSession({}); }
  void End(const v1::BeginSessionResponse& session) {
    v1::EndSessionRequest request;
    request.set_token(session.token());
    EXPECT_TRUE(node_->EndSession(request).ok());
  }
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
  ObjectRef PutRoot(const v1::BeginSessionResponse& session, const ObjectRef& tile) {
    Tree tree;
    tree.level = 3;
    tree.type = TreeType::kManifestRoot;
    tree.children.push_back(tile);
    return Put(session, 3, EncodeTree(tree));
  }
  absl::StatusOr<v1::CommitResponse> Commit(const v1::BeginSessionResponse& session,
                                            const ObjectRef& root, const std::string& name) {
    v1::CommitRequest request;
    request.set_token(session.token());
    request.set_session_rev(session.session_rev());
    request.set_commit_id(random_.Bytes(16));
    request.set_ns("default");
    request.set_name(name);
    ObjectRefToWire(root, request.mutable_root());
    return node_->Commit(request);
  }
  // A model of one tile; the tile and the root.
  std::pair<ObjectRef, ObjectRef> Import(const std::string& name, const std::string& content) {
    const v1::BeginSessionResponse session = Begin();
    const ObjectRef tile = Put(session, 0, content);
    const ObjectRef root = PutRoot(session, tile);
    auto committed = Commit(session, root, name);
    EXPECT_TRUE(committed.ok() && committed->applied()) << committed.status();
    End(session);
    return {tile, root};
  }
  void Delete(const std::string& name, bool now = true) {
    v1::DeleteVersionsRequest request;
    request.set_ns("default");
    request.set_name(name);
    request.set_all(true);
    request.set_now(now);
    EXPECT_EQ(node_->DeleteVersions(request)->deleted_size(), 1);
  }
  bool Undelete(const std::string& name) {
    v1::UndeleteVersionRequest request;
    request.set_ns("default");
    request.set_name(name);
    request.set_number(1);
    return node_->UndeleteVersion(request)->restored();
  }
  v1::CollectResponse Collect() {
    auto round = node_->Collect({});
    EXPECT_TRUE(round.ok()) << round.status();
    return round.ok() ? *round : v1::CollectResponse();
  }
  // The round that is in force, by the catalog.
  RoundName Current() {
    v1::RoundRecord record;
    EXPECT_TRUE(record.ParseFromString((*catalog_.Get(kRoundKey))->value));
    return NameOfRound(record);
  }
  // Another collector's round begins, and no more.
  void BeginAnotherRound() {
    v1::RoundRecord record;
    record.set_value("another");
    EXPECT_TRUE(catalog_
                    .Txn({.compares = {},
                          .writes = {CatalogWrite::Put(kRoundKey, record.SerializeAsString())}})
                    .ok());
  }
  std::string Holders(const ObjectRef& ref) { return cluster_.Holders(ref.id); }

  MemoryCluster cluster_{ThreeNodes()};
  SimulatedDisk disk_{1};
  SeededRandom random_{11};
  MemoryCatalog catalog_{&cluster_.clock(), &random_};
  InlineExecutor executor_;
  NoAdmin admin_;
  std::map<std::string, std::unique_ptr<RoundStore>> stores_;
  std::map<std::string, std::unique_ptr<NodeRounds>> rounds_;
  std::unique_ptr<ClusterCollection> collection_;
  std::unique_ptr<LocalNode> node_;
};

TEST_F(ClusterCollectionTest, WhatNothingNamesGoesFromEveryNodeAndWhatIsNamedStays) {
  for (int i = 0; i < 20; ++i) Import("m" + std::to_string(i), "tile " + std::to_string(i));
  const auto [tile, root] = Import("m", "tile");
  const auto [other_tile, other_root] = Import("n", "another tile");
  const ObjectRef stray = cluster_.PutAt("b", "only there", {1});
  Delete("m");
  const v1::CollectResponse round = Collect();
  EXPECT_EQ(Holders(tile) + Holders(root) + Holders(stray), "");
  EXPECT_EQ(Holders(other_tile), "abc");
  EXPECT_EQ(Holders(other_root), "abc");
  EXPECT_EQ(round.deleted_objects(), 3 * 3u + 1) << "copies of tile, root and commit, and a stray";
  EXPECT_EQ(round.live_objects(), 21 * 3u);
  EXPECT_EQ(round.not_reached_size(), 0);
  EXPECT_EQ(Collect().deleted_objects(), 0u);
}

TEST_F(ClusterCollectionTest, ANodeThatIsOutOfTheOwnersIsSweptToo) {
  const auto [tile, root] = Import("m", "tile");
  const ObjectRef stray = cluster_.PutAt("c", "stray", {1});
  ASSERT_TRUE(PutContent(*cluster_.node("c").store, "tile").ok());
  cluster_.SetMap({{"c", NodeState::kOut}});
  Delete("m");
  Collect();
  EXPECT_EQ(Holders(tile) + Holders(root) + Holders(stray), "");
}

TEST_F(ClusterCollectionTest, ADryRunTellsWhatARoundWouldDeleteAndChangesNothing) {
  const auto [tile, root] = Import("m", "tile");
  Import("n", "another tile");
  Delete("m");
  v1::CollectRequest request;
  request.set_dry_run(true);
  auto would = node_->Collect(request);
  ASSERT_TRUE(would.ok()) << would.status();
  EXPECT_EQ(would->deleted_objects(), 9u);
  EXPECT_EQ(Holders(tile), "abc");
  EXPECT_FALSE((*catalog_.Get(kRoundKey)).has_value());
  for (const auto& [id, store] : stores_) EXPECT_EQ(store->fence(), Revision{}) << id;
  EXPECT_EQ(Collect().deleted_bytes(), would->deleted_bytes());
}

TEST_F(ClusterCollectionTest, WhatALivingSessionTouchedStaysAndGoesAfterItsEnd) {
  const ObjectRef old = cluster_.PutAt("a", "of before", {1});
  const v1::BeginSessionResponse session = Begin();
  const ObjectRef tile = Put(session, 0, "tile");
  Import("m", "a later one, whose session ends first");
  const v1::CollectResponse round = Collect();
  EXPECT_EQ(round.fence(), session.session_rev());
  EXPECT_EQ(round.kept_by_sessions(), 3u);
  EXPECT_EQ(Holders(old), "");
  EXPECT_EQ(Holders(tile), "abc");
  const ObjectRef root = PutRoot(session, tile);
  ASSERT_TRUE(Commit(session, root, "n")->applied());
  End(session);
  Collect();
  EXPECT_EQ(Holders(tile) + Holders(root), "abcabc");
  const v1::BeginSessionResponse broken_off = Begin();
  const ObjectRef lost = Put(broken_off, 0, "never committed");
  Collect();
  EXPECT_EQ(Holders(lost), "abc");
  Advance(kSessionLease_s);
  Collect();
  EXPECT_EQ(Holders(lost), "");
}

TEST_F(ClusterCollectionTest, ASessionBelowTheFenceIsLostAtEveryNode) {
  const v1::BeginSessionResponse session = Begin();
  End(session);
  const Revision old{session.session_rev()};
  // A node that is told by another one's round, and has never collected.
  auto collection = NewCollection("b");
  auto other = NewNode(*collection);
  v1::LinkRequest link;
  link.set_session_rev(session.session_rev());
  EXPECT_TRUE(other->Link(link).ok());
  for (const auto& [id, rounds] : rounds_) EXPECT_TRUE(rounds->CheckSession(old).ok());
  Collect();
  for (const auto& [id, rounds] : rounds_) {
    EXPECT_EQ(GetReason(rounds->CheckSession(old)), Reason::kSessionLost) << id;
    EXPECT_TRUE(rounds->CheckSession(Current().fence).ok());
  }
  EXPECT_EQ(GetReason(other->Link(link).status()), Reason::kSessionLost);
  const auto put = PutContent(cluster_.objects(), "late", {.touched_rev = old});
  EXPECT_FALSE(put.ok()) << "the others refuse what this node would not have taken";
}

TEST_F(ClusterCollectionTest, ANodeThatWasAwayDuringARoundBringsNothingBackAndIsSweptLater) {
  const auto [tile, root] = Import("m", "tile");
  const auto [kept, kept_root] = Import("n", "kept");
  Delete("m");
  const ObjectRef stray = cluster_.PutAt("c", "garbage that its other owners have no rows of", {1});
  cluster_.node("c").faults.down = true;
  const v1::CollectResponse round = Collect();
  ASSERT_EQ(round.not_reached_size(), 1);
  EXPECT_THAT(round.not_reached(0), testing::StartsWith("c: "));
  EXPECT_EQ(Holders(tile), "c");
  cluster_.node("c").faults.down = false;
  const Revision touched = (*cluster_.node("c").store->Stat(kDefaultDomain, tile.id))->touched_rev;
  auto refusal = rounds_["a"]->RefusalOf(kDefaultDomain, tile.id, touched);
  ASSERT_TRUE(refusal.ok() && refusal->has_value());
  EXPECT_EQ((*refusal)->round, Current());
  EXPECT_TRUE(rounds_["a"]->Confirm(**refusal).ok());
  EXPECT_LT(touched, (*refusal)->round.fence);
  EXPECT_TRUE(rounds_["b"]->RefusalOf(kDefaultDomain, stray.id, {1})->has_value());
  // Neither what is in use, nor what was touched since, nor where the node has no list.
  EXPECT_FALSE(rounds_["a"]->RefusalOf(kDefaultDomain, kept.id, touched)->has_value());
  EXPECT_FALSE(rounds_["a"]->RefusalOf(kDefaultDomain, tile.id, Current().fence)->has_value());
  EXPECT_FALSE(rounds_["c"]->RefusalOf(kDefaultDomain, tile.id, touched)->has_value());
  // It is used again meanwhile: nothing takes it then.
  const v1::BeginSessionResponse session = Begin();
  const ObjectRef again = PutRoot(session, Put(session, 0, "tile"));
  ASSERT_TRUE(Commit(session, again, "again")->applied());
  End(session);
  EXPECT_EQ(Collect().not_reached_size(), 0);
  EXPECT_EQ(Holders(tile), "abc");
  Delete("again");
  Collect();
  EXPECT_EQ(Holders(tile), "");
  EXPECT_EQ(Holders(kept), "abc");
}

TEST_F(ClusterCollectionTest, ANodeThatAnswersAgainLaterInTheRoundIsToldThen) {
  const auto [tile, root] = Import("m", "tile");
  Delete("m");
  cluster_.node("b").faults.down = true;
  cluster_.node("c").faults.before_round_part = [&] { cluster_.node("b").faults.down = false; };
  EXPECT_EQ(Collect().not_reached_size(), 0);
  EXPECT_EQ(Holders(tile), "");
}

TEST_F(ClusterCollectionTest, OneNodeCollectsAtATimeAndAnotherAfterIt) {
  auto turn = collection_->TakeTurn();
  ASSERT_TRUE(turn.ok()) << turn.status();
  const absl::Status refused = node_->Collect({}).status();
  EXPECT_EQ(GetReason(refused), Reason::kOverloaded);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("node 'a' is collecting"));
  v1::CollectRequest dry;
  dry.set_dry_run(true);
  EXPECT_TRUE(node_->Collect(dry).ok()) << "which changes nothing";
  // As long as it goes on it stays.
  for (int i = 0; i < 5; ++i) {
    Advance(kCollectorLease_s / 2);
    ASSERT_TRUE((*turn)->Renew().ok());
  }
  EXPECT_EQ(GetReason(node_->Collect({}).status()), Reason::kOverloaded);
  Advance(kCollectorLease_s + 1);
  EXPECT_EQ(GetReason((*turn)->Renew()), Reason::kOverloaded);
  EXPECT_TRUE(node_->Collect({}).ok());
  EXPECT_TRUE(node_->Collect({}).ok()) << "a turn ends with its round";
}

// Two collectors at once. The first stands still at `step` for longer than its lease; meanwhile the
// second has a whole round, and what was garbage is named.
class TwoCollectors : public ClusterCollectionTest,
                      public testing::WithParamInterface<const char*> {};

TEST_P(TwoCollectors, NothingReachableIsDeleted) {
  const auto [tile, root] = Import("m", "tile");
  const auto [garbage, garbage_root] = Import("g", "garbage");
  Delete("m");
  Delete("g");
  auto second_collection = NewCollection("b");
  auto second = NewNode(*second_collection);
  bool met = false;
  Once(GetParam(), [&] {
    met = true;
    const v1::BeginSessionResponse session = Begin();
    const ObjectRef again = PutRoot(session, Put(session, 0, "tile"));
    Advance(kCollectorLease_s + 1);
    auto round = second->Collect({});
    EXPECT_TRUE(round.ok()) << round.status();
    EXPECT_TRUE(Commit(session, again, "again")->applied());
    End(session);
  });
  const absl::Status first = node_->Collect({}).status();
  EXPECT_TRUE(met);
  EXPECT_EQ(GetReason(first), Reason::kOverloaded) << first;
  EXPECT_EQ(Holders(tile), "abc");
  EXPECT_EQ(Holders(root), "abc");
  EXPECT_EQ(Holders(garbage), "") << "by the second";
  Collect();
  EXPECT_EQ(Holders(tile), "abc");
}

INSTANTIATE_TEST_SUITE_P(Steps, TwoCollectors,
                         testing::Values("collector.began", "collector.live_found",
                                         "collector.fence_stored", "rounds.part_stored",
                                         "rounds.before_check"));

TEST_F(ClusterCollectionTest, ARoundThatIsNotTheCatalogsStopsBeforeTheNextBatch) {
  const auto [tile, root] = Import("m", "tile");
  Delete("m");
  Once("rounds.before_check", [&] { BeginAnotherRound(); });
  EXPECT_EQ(GetReason(node_->Collect({}).status()), Reason::kOverloaded);
  EXPECT_EQ(Holders(tile) + Holders(root), "abcabc");
}

TEST_F(ClusterCollectionTest, ARoundThatTheCatalogHasForgottenDeletesAndRefusesNothingMore) {
  const auto [tile, root] = Import("m", "tile");
  const std::optional<CatalogEntry> before = *catalog_.Get(kRoundKey);
  Delete("m");
  RoundName round;
  Once("rounds.part_stored", [&] {
    round = Current();
    // The catalog as it was in a backup of before.
    ASSERT_TRUE(catalog_.Txn({.compares = {}, .writes = {CatalogWrite::Delete(kRoundKey)}}).ok());
  });
  EXPECT_EQ(GetReason(node_->Collect({}).status()), Reason::kOverloaded);
  EXPECT_EQ(Holders(tile), "abc");
  for (const auto& [id, rounds] : rounds_) {
    EXPECT_EQ(GetReason(rounds->SweepRound(kDefaultDomain, round, std::nullopt, {}).status()),
              id == "a" ? Reason::kVersionConflict : Reason::kNone)
        << "the others have no list of it";
  }
  EXPECT_EQ(GetReason(rounds_["a"]->Confirm({round})), Reason::kVersionConflict);
  EXPECT_EQ(Holders(tile), "abc");
}

TEST_F(ClusterCollectionTest, ListsOfAnotherLineAreNeitherTakenNorFollowed) {
  const auto [tile, root] = Import("m", "tile");
  Collect();
  RoundPart part{.round = Current(), .ranges = {{0, ~uint64_t{0}}}, .prefixes = {}};
  part.round.line_id = "ANOTHER-ANOTHER-";
  NodeRounds& rounds = *rounds_["b"];
  EXPECT_EQ(GetReason(rounds.StoreRoundPart(part, {})), Reason::kCatalogRewound);
  EXPECT_EQ(GetReason(rounds.SweepRound(0, part.round, std::nullopt, {}).status()),
            Reason::kCatalogRewound);
  EXPECT_EQ(Holders(tile), "abc");
}

TEST_F(ClusterCollectionTest, ANodeThatEndsBetweenListAndSweepGoesOnWithTheListWhenItIsBack) {
  const auto [tile, root] = Import("m", "tile");
  const auto [kept, kept_root] = Import("n", "kept");
  Delete("m");
  // All lists are stored at all nodes, and nothing is swept.
  for (auto& [id, rounds] : rounds_) cluster_.node(id).faults.before_round_part = nullptr;
  int checks = 0;
  SetCrashHandler([&](std::string_view step) { checks += step == "rounds.before_check"; });
  CallContext stopped{.cancel = std::make_shared<CancelToken>()};
  Once("rounds.before_check", [&] { stopped.cancel->Cancel(); });
  EXPECT_EQ(GetReason(node_->Collect({}, stopped).status()), Reason::kCancelled);
  SetCrashHandler(nullptr);
  disk_.PowerOn(SimulatedDisk::Loss::kEverything);
  for (const char* id : {"a", "b", "c"}) StartRounds(id);
  // Before anything else is known, what the round found is refused, and what it has is not.
  const Revision low{1};
  ASSERT_TRUE(rounds_["a"]->RefusalOf(kDefaultDomain, tile.id, low)->has_value());
  EXPECT_FALSE(rounds_["a"]->RefusalOf(kDefaultDomain, kept.id, low)->has_value());
  EXPECT_EQ(rounds_["a"]->fence(), Current().fence);
  cluster_.PutAt("a", "tile", low);  // it is garbage still
  std::optional<ObjectId> after;
  auto swept = rounds_["a"]->SweepRound(kDefaultDomain, Current(), after, {});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_FALSE(swept->next_after.has_value());
  EXPECT_THAT(Holders(tile), testing::Not(testing::HasSubstr("a")));
  EXPECT_EQ(Holders(kept), "abc");
}

TEST_F(ClusterCollectionTest, AnUnreadableTreeEndsTheRoundAndIsNamed) {
  const auto [tile, root] = Import("m", "tile");
  const auto [garbage, garbage_root] = Import("g", "garbage");
  Delete("g");
  for (const char* id : {"a", "b", "c"}) {
    cluster_.node(id).store->FlipBit(kDefaultDomain, root.id, 30);
  }
  const absl::Status status = node_->Collect({}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("default/m@1"));
  EXPECT_EQ(Holders(garbage), "abc");
  EXPECT_EQ(rounds_["b"]->fence(), Revision{});
}

TEST_F(ClusterCollectionTest, AVersionThatIsBroughtBackDuringARoundHasItsObjects) {
  const auto [tile, root] = Import("m", "tile");
  for (const char* step : {"collector.before_purge", "collector.began", "collector.fence_stored"}) {
    Delete("m", /*now=*/false);
    Advance(step == std::string("collector.before_purge") ? kDeleteGrace_s : 1);
    bool restored = false;
    Once(step, [&] { restored = Undelete("m"); });
    EXPECT_EQ(Collect().purged_versions(), 0u) << step;
    EXPECT_TRUE(restored) << step;
    EXPECT_EQ(Holders(tile) + Holders(root), "abcabc") << step;
  }
  Delete("m", /*now=*/false);
  Advance(kDeleteGrace_s);
  bool restored = true;
  Once("collector.fence_stored", [&] { restored = Undelete("m"); });
  EXPECT_EQ(Collect().purged_versions(), 1u);
  EXPECT_FALSE(restored) << "it was purged before the round began";
  EXPECT_EQ(Holders(tile), "");
}

TEST_F(ClusterCollectionTest, ARoundIsDueWhicheverNodeBeganTheLastOne) {
  auto other_collection = NewCollection("b");
  auto other = NewNode(*other_collection);
  EXPECT_EQ(*other->CollectionDueIn_ms(60'000), 0) << "there was none";
  Collect();
  EXPECT_EQ(*other->CollectionDueIn_ms(60'000), 60'000);
  Advance(45);
  EXPECT_EQ(*other->CollectionDueIn_ms(60'000), 15'000);
  Advance(100);
  EXPECT_EQ(*other->CollectionDueIn_ms(60'000), 0);
}

TEST_F(ClusterCollectionTest, EndingSessionsLeavesPutsByKeyOfOtherNodesAlone) {
  auto other_collection = NewCollection("b");
  auto other = NewNode(*other_collection);
  const std::string content(5'000, 'x');
  v1::PutValueHeader header;
  header.set_key("k");
  header.set_request_id(random_.Bytes(16));
  auto writer = other->BeginPutValue(header);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append(AsBytes(content)).ok());
  const v1::BeginSessionResponse upload = Begin();
  v1::CollectRequest request;
  request.set_end_sessions(true);
  EXPECT_TRUE(node_->Collect(request).ok());
  EXPECT_TRUE((*writer)->Finish({}).ok());
  v1::LinkRequest link;
  link.set_session_rev(upload.session_rev());
  EXPECT_EQ(GetReason(node_->Link(link).status()), Reason::kSessionLost);
}

// A record is gone that no transaction of the cluster took: a person looks first.
TEST_F(ClusterCollectionTest,
       ARoundThatWouldDeleteTooMuchIsHeldAtEveryNodeUntilItIsConfirmedAtAny) {
  const auto write = [this](CatalogWrite write) {
    ASSERT_TRUE(catalog_.Txn({.compares = {}, .writes = {std::move(write)}}).ok());
  };
  const auto name = [&](const std::string& key, uint64_t bytes) {
    v1::ValueRecord record;
    record.set_length(bytes);
    ObjectRef ref = RefOf(0, AsBytes(key));
    ref.length = bytes;  // nothing reads it
    ObjectRefToWire(ref, record.mutable_object());
    write(CatalogWrite::Put(ValueKey(key), record.SerializeAsString()));
  };
  name("a", 30 * kGiB);
  name("b", 60 * kGiB);
  ASSERT_FALSE(Collect().held());
  const Revision fence = rounds_["b"]->fence();
  const ObjectRef stray = cluster_.PutAt("b", "stray", {1});
  const auto [tile, root] = Import("m", "tile");
  Delete("m");
  write(CatalogWrite::Delete(ValueKey("a")));
  const v1::CollectResponse held = Collect();
  EXPECT_TRUE(held.held());
  EXPECT_EQ(held.unexplained_bytes(), 30 * kGiB);
  EXPECT_EQ(Holders(stray), "b");
  EXPECT_EQ(Holders(tile), "abc");
  for (const char* id : {"a", "b", "c"}) EXPECT_EQ(rounds_[id]->fence(), fence) << id;

  auto other = NewCollection("c");
  auto node = NewNode(*other);
  v1::CollectRequest confirm;
  confirm.set_confirm("another");
  EXPECT_EQ(GetReason(node->Collect(confirm).status()), Reason::kInvalidArgument);
  EXPECT_EQ(Holders(tile), "abc");
  confirm.set_confirm(held.round());
  auto confirmed = node->Collect(confirm);
  ASSERT_TRUE(confirmed.ok()) << confirmed.status();
  EXPECT_FALSE(confirmed->held());
  EXPECT_EQ(Holders(stray) + Holders(tile) + Holders(root), "");
  EXPECT_FALSE(Collect().held());
}

}  // namespace
}  // namespace tilekv
