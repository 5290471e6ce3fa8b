// Repair between nodes, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/base/clock.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/repair_answers.h"
#include "kvstore/cluster/repairer.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/placement/placement.h"
#include "kvstore/placement/placement_test_util.h"
#include "server/repair_messages.h"
#include "server/testing_peers.h"

namespace tilekv {
namespace {

class FixedView : public ClusterView {
 public:
  FixedView(const std::string& id, std::shared_ptr<const Placement> placement)
      : id_(id), placement_(std::move(placement)) {}
  const std::string& node_id() const override { return id_; }
  std::shared_ptr<const Placement> placement() override { return placement_; }

 private:
  const std::string id_;
  const std::shared_ptr<const Placement> placement_;
};

// Garbage by a round that is in force.
class Refusing : public CopyRefusals {
 public:
  absl::StatusOr<std::optional<CopyRefusal>> RefusalOf(Domain, const ObjectId& id,
                                                       Revision touched_rev) override {
    if (id != garbage || touched_rev >= round.fence) return std::nullopt;
    return CopyRefusal{round};
  }
  absl::Status Confirm(const CopyRefusal& refusal) override {
    return refusal.round == round ? absl::OkStatus() : MakeError(Reason::kVersionConflict, "old");
  }

  ObjectId garbage;
  RoundName round{
      .id = std::string(16, 'r'), .line_id = kTestingLine, .snapshot = {20}, .fence = {10}};
};

// A node that answers others and repairs.
struct RepairingPeer {
  RepairingPeer(const std::string& id, std::shared_ptr<const Placement> placement, Clock& clock)
      : view(id, std::move(placement)), server(id, store) {
    GrpcPeersOptions options = TestingPeersOptions();
    options.node_id = id;
    peers = std::make_unique<GrpcPeers>(options);
    repairer = std::make_unique<Repairer>(
        store, *peers, view,
        RepairerOptions{.executor = &executor,
                        .pull_budget = std::make_shared<ByteBudget>(4 * kMiB),
                        .pool = BufferPool::Create(4 * kMiB),
                        .refusals = &refusals,
                        .clock = &clock});
    answers = std::make_unique<RepairAnswers>(store, view, repairer->wanted(), &refusals, clock);
    server.StopServer();
    server.set_repair(answers.get());
    server.StartServer();
  }
  ~RepairingPeer() { server.StopServer(); }

  MemoryObjectStore store;
  FixedView view;
  Refusing refusals;
  InlineExecutor executor;
  TestingPeer server;
  std::unique_ptr<GrpcPeers> peers;
  std::unique_ptr<Repairer> repairer;
  std::unique_ptr<RepairAnswers> answers;
};

class PeerRepairTest : public testing::Test {
 protected:
  // Two copies of each object on three nodes.
  PeerRepairTest() {
    ClusterSettings settings;
    settings.replication = 2;
    settings.partition_bits = 4;
    std::vector<MapNode> nodes;
    for (const char* id : {"a", "b", "c"}) nodes.push_back(TestNode(id));
    placement_ = std::make_shared<const Placement>(TestMap(nodes, settings));
    std::vector<PeerAddress> addresses;
    for (const MapNode& node : nodes) {
      nodes_[node.id] = std::make_unique<RepairingPeer>(node.id, placement_, clock_);
      addresses.push_back({node.id, nodes_[node.id]->server.address()});
    }
    for (auto& [id, node] : nodes_) node->peers->Update(addresses);
  }

  RepairingPeer& at(const std::string& id) { return *nodes_[id]; }
  // As `from` knows it.
  std::shared_ptr<Peer> PeerOf(const std::string& from, const std::string& id) {
    return at(from).peers->Find(id);
  }
  PlacementVersion version() const { return placement_->map().placement_version(); }
  std::string OwnersOf(const ObjectId& id) const {
    std::string text;
    for (NodeIndex owner : placement_->OwnersOf(placement_->PartitionOf(id))) {
      text += placement_->map().nodes()[owner].id;
    }
    std::sort(text.begin(), text.end());
    return text;
  }
  std::string HoldersOf(const ObjectId& id) {
    std::string text;
    for (auto& [name, node] : nodes_) {
      if (node->store.Stat(kDefaultDomain, id)->has_value()) text += name;
    }
    return text;
  }
  // Puts it at this node alone.
  ObjectRef PutAt(const std::string& node, const std::string& content, uint64_t touched_rev = 5) {
    auto put = PutContent(at(node).store, content, {.touched_rev = {touched_rev}});
    EXPECT_TRUE(put.ok()) << put.status();
    return put->ref;
  }
  // A content that these own.
  std::string ContentOwnedBy(const std::string& owners) {
    for (int i = 0;; ++i) {
      std::string content = "content " + std::to_string(i);
      if (OwnersOf(RefOf(0, AsBytes(content)).id) == owners) return content;
    }
  }
  // All nodes take steps in turn, on their clock; false: it does not come to that.
  bool RunUntil(const std::function<bool()>& done) {
    for (int step = 0; step < 3'000; ++step) {
      if (done()) return true;
      int64_t wait_micros = 1'000'000;
      for (auto& [id, node] : nodes_) {
        absl::StatusOr<int64_t> wait = node->repairer->Step();
        EXPECT_TRUE(wait.ok()) << wait.status();
        wait_micros = std::min(wait_micros, *wait);
      }
      clock_.Advance(std::max<int64_t>(wait_micros, 1'000));
    }
    return false;
  }

  ManualClock clock_;
  std::shared_ptr<const Placement> placement_;
  std::map<std::string, std::unique_ptr<RepairingPeer>> nodes_;
};

TEST_F(PeerRepairTest, CopiesComeToTheirOwnersAndLeaveAllOthers) {
  std::vector<ObjectRef> refs;
  for (int i = 0; i < 40; ++i) {
    const std::string name(1, static_cast<char>('a' + i % 3));
    refs.push_back(PutAt(name, "object " + std::to_string(i)));
  }
  refs.push_back(PutAt("b", std::string(3 * kMiB + 5, 'x')));
  EXPECT_TRUE(RunUntil([&] {
    return std::all_of(refs.begin(), refs.end(), [this](const ObjectRef& ref) {
      return HoldersOf(ref.id) == OwnersOf(ref.id);
    });
  }));
  uint64_t pulled = 0;
  uint64_t dropped = 0;
  for (auto& [id, node] : nodes_) {
    pulled += node->repairer->counters().pulled_objects;
    dropped += node->repairer->counters().dropped_objects;
  }
  EXPECT_EQ(pulled, refs.size() + dropped) << "each had one copy, and has two";
  EXPECT_GT(dropped, 0u);
}

TEST_F(PeerRepairTest, RevisionsOfOwnersBecomeTheLargerOne) {
  const std::string content = ContentOwnedBy("ab");
  const ObjectRef ref = PutAt("a", content, 5);
  PutAt("b", content, 9);
  EXPECT_TRUE(RunUntil(
      [&] { return (*at("a").store.Stat(kDefaultDomain, ref.id))->touched_rev == Revision{9}; }));
}

TEST_F(PeerRepairTest, WhatOwnersRefuseAsGarbageGoesAndIsNotPulled) {
  const std::string content = ContentOwnedBy("bc");
  const ObjectRef garbage = PutAt("a", content, 5);
  for (auto& [id, node] : nodes_) node->refusals.garbage = garbage.id;
  EXPECT_TRUE(RunUntil([&] { return HoldersOf(garbage.id).empty(); }));
  EXPECT_EQ(at("a").repairer->counters().collected_objects, 1u);
  EXPECT_EQ(at("b").repairer->counters().pulled_objects, 0u);
}

TEST_F(PeerRepairTest, WhatWasTouchedSinceTheFenceIsNotRefused) {
  const ObjectRef ref = PutAt("a", ContentOwnedBy("bc"), 10);
  for (auto& [id, node] : nodes_) node->refusals.garbage = ref.id;
  EXPECT_TRUE(RunUntil([&] { return HoldersOf(ref.id) == "bc"; }));
}

TEST_F(PeerRepairTest, ARefusalByARoundThatTheCatalogHasNotDeletesNothing) {
  const ObjectRef ref = PutAt("a", ContentOwnedBy("bc"), 5);
  for (const char* owner : {"b", "c"}) {
    at(owner).refusals.garbage = ref.id;
    at(owner).refusals.round.id = std::string(16, 'o');
  }
  EXPECT_FALSE(RunUntil([&] { return HoldersOf(ref.id) != "a"; }));
}

TEST_F(PeerRepairTest, APageFollowsThePageBeforeIt) {
  std::vector<ObjectId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(PutAt("a", std::to_string(i)).id);
  std::sort(ids.begin(), ids.end());
  std::vector<ObjectId> listed;
  for (uint32_t partition = 0; partition < placement_->partitions(); ++partition) {
    auto page = PeerOf("b", "a")->ListPartition(kDefaultDomain, partition, std::nullopt, {});
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_TRUE(page->end);
    for (const PartitionRow& row : page->rows) listed.push_back(row.ref.id);
    if (page->rows.empty()) continue;
    page = PeerOf("b", "a")->ListPartition(kDefaultDomain, partition, listed.back(), {});
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_TRUE(page->rows.empty() && page->end);
  }
  EXPECT_EQ(listed, ids);
}

TEST_F(PeerRepairTest, CopiesAreListedAndVerifiedStepByStep) {
  std::vector<ObjectId> ids;
  for (int i = 0; i < 1'500; ++i) ids.push_back(PutAt("a", std::to_string(i)).id);
  std::sort(ids.begin(), ids.end());
  const ObjectRef damaged = PutAt("a", std::string(1'000, 'x'));
  at("a").store.FlipBit(kDefaultDomain, damaged.id, 500);
  VerifyAnswer sum;
  int steps = 0;
  for (std::optional<ObjectId> after;; after = sum.next_after) {
    auto answer = PeerOf("b", "a")->VerifyCopies(kDefaultDomain, after, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    sum.copies += answer->copies;
    sum.damaged += answer->damaged;
    sum.next_after = answer->next_after;
    ++steps;
    if (!answer->next_after.has_value()) break;
  }
  EXPECT_EQ(sum.copies, 1'501u);
  EXPECT_EQ(sum.damaged, 1u);
  EXPECT_EQ(steps, 2);
  std::vector<ObjectId> listed;
  std::optional<ObjectId> after;
  for (bool end = false; !end;) {
    auto page = PeerOf("b", "a")->ListCopies(kDefaultDomain, after, {});
    ASSERT_TRUE(page.ok()) << page.status();
    for (const PartitionRow& row : page->rows) {
      EXPECT_EQ(row.state == RowState::kQuarantined, row.ref.id == damaged.id);
      if (row.ref.id != damaged.id) listed.push_back(row.ref.id);
      after = row.ref.id;
    }
    end = page->end;
  }
  EXPECT_EQ(listed, ids);
}

TEST_F(PeerRepairTest, QuestionsThatCannotBeAreRefused) {
  const std::shared_ptr<Peer> peer = PeerOf("b", "a");
  const std::vector<uint32_t> none = {placement_->partitions()};
  EXPECT_EQ(GetReason(peer->Digests(kDefaultDomain, version(), none, {}).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(peer->ListPartition(kDefaultDomain, none[0], std::nullopt, {}).status()),
            Reason::kInvalidArgument);
  const TouchedRef ref{RefOf(0, AsBytes("x")), {5}};
  const std::vector<TouchedRef> many(kMaxRepairBatch + 1, ref);
  EXPECT_EQ(GetReason(peer->Offer(kDefaultDomain, version(), many, {}).status()),
            Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(peer->ConfirmDrop(kDefaultDomain, version(), many, {}).status()),
            Reason::kInvalidArgument);
}

TEST_F(PeerRepairTest, AnotherPlacementGetsTheNodesOwnAndNothingElse) {
  const std::shared_ptr<Peer> peer = PeerOf("b", "a");
  const PlacementVersion other{.version = {version().version.value + 1}, .hash = version().hash};
  const TouchedRef ref{PutAt("a", "x"), {9}};
  const uint32_t partition = 0;
  auto digests = peer->Digests(kDefaultDomain, other, {&partition, 1}, {});
  ASSERT_TRUE(digests.ok()) << digests.status();
  EXPECT_TRUE(digests->digests.empty() && digests->placement == version());
  auto offer = peer->Offer(kDefaultDomain, other, {&ref, 1}, {});
  ASSERT_TRUE(offer.ok()) << offer.status();
  EXPECT_TRUE(offer->outcomes.empty() && offer->placement == version());
  auto drop = peer->ConfirmDrop(kDefaultDomain, other, {&ref, 1}, {});
  ASSERT_TRUE(drop.ok()) << drop.status();
  EXPECT_TRUE(drop->confirmed.empty() && drop->placement == version());
  EXPECT_EQ((*at("a").store.Stat(kDefaultDomain, ref.ref.id))->touched_rev, Revision{5});
}

TEST_F(PeerRepairTest, ANodeOnAnotherLineOrWithoutRepairRefuses) {
  const std::shared_ptr<Peer> peer = PeerOf("b", "a");
  at("a").server.set_line("ANOTHERLINEOTHER");
  const TouchedRef ref{RefOf(0, AsBytes("x")), {5}};
  EXPECT_EQ(GetReason(peer->ConfirmDrop(kDefaultDomain, version(), {&ref, 1}, {}).status()),
            Reason::kCatalogRewound);
  at("a").server.set_line(kTestingLine);
  at("a").server.StopServer();
  at("a").server.set_repair(nullptr);
  at("a").server.StartServer();
  EXPECT_EQ(GetReason(peer->ConfirmDrop(kDefaultDomain, version(), {&ref, 1}, {}).status()),
            Reason::kNodeUnavailable);
}

TEST(RepairMessages, AnswersThatNoQuestionHasAreTold) {
  v1::DigestsResponse digests;
  digests.add_digests();
  digests.add_digests();
  EXPECT_TRUE(DigestAnswerFromWire(digests, 2).ok());
  EXPECT_EQ(GetReason(DigestAnswerFromWire(digests, 1).status()), Reason::kInternal);

  v1::OfferResponse offer;
  offer.add_outcomes(static_cast<uint32_t>(OfferOutcome::kCollected));
  EXPECT_EQ(GetReason(OfferAnswerFromWire(offer, 1).status()), Reason::kInternal) << "no round";
  offer.mutable_round();
  EXPECT_TRUE(OfferAnswerFromWire(offer, 1).ok());
  EXPECT_EQ(GetReason(OfferAnswerFromWire(offer, 2).status()), Reason::kInternal);
  for (uint32_t outcome : {0u, 6u}) {
    offer.set_outcomes(0, outcome);
    EXPECT_EQ(GetReason(OfferAnswerFromWire(offer, 1).status()), Reason::kInternal) << outcome;
  }

  v1::ConfirmDropResponse drop;
  drop.add_confirmed(true);
  EXPECT_TRUE(DropAnswerFromWire(drop, 1).ok());
  EXPECT_EQ(GetReason(DropAnswerFromWire(drop, 2).status()), Reason::kInternal);
}

TEST(RepairMessages, APageIsInOrderAndComesToAnEnd) {
  PartitionPage page{.rows = {}, .end = true};
  for (int i = 0; i < 2; ++i) {
    page.rows.push_back({RefOf(0, AsBytes(std::to_string(i))), {7}, RowState::kSuspect});
  }
  const auto by_id = [](const auto& a, const auto& b) { return a.ref.id < b.ref.id; };
  std::sort(page.rows.begin(), page.rows.end(), by_id);
  v1::ListPartitionResponse message;
  PartitionPageToWire(page, &message);
  auto read = PartitionPageFromWire(message, std::nullopt);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->rows == page.rows && read->end);
  EXPECT_EQ(GetReason(PartitionPageFromWire(message, page.rows[0].ref.id).status()),
            Reason::kInternal);
  v1::ListPartitionResponse turned;
  *turned.add_rows() = message.rows(1);
  *turned.add_rows() = message.rows(0);
  EXPECT_EQ(GetReason(PartitionPageFromWire(turned, std::nullopt).status()), Reason::kInternal);
  message.mutable_rows(0)->set_state(4);
  EXPECT_EQ(GetReason(PartitionPageFromWire(message, std::nullopt).status()), Reason::kInternal);
  EXPECT_EQ(GetReason(PartitionPageFromWire(v1::ListPartitionResponse(), std::nullopt).status()),
            Reason::kInternal)
      << "no rows, and no end: it would be asked for for ever";
}

}  // namespace
}  // namespace tilekv
