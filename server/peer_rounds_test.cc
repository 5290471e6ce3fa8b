// The collector's rounds between nodes, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/base/simulated_disk.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/catalog/memory_catalog.h"
#include "kvstore/cluster/node_rounds.h"
#include "kvstore/object/object_store_conformance.h"
#include "server/testing_peers.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {
namespace {

constexpr uint32_t kBits = 4;
constexpr uint64_t kEnd = ~uint64_t{0};

class PeerRoundsTest : public testing::Test {
 protected:
  PeerRoundsTest()
      : round_store_(*RoundStore::Open(*disk_.file_system(), "/rounds", nullptr)),
        rounds_(*round_store_, store_, catalog_, [] { return std::string(kTestingLine); }) {
    a_.StopServer();
    a_.set_rounds(&rounds_);
    a_.StartServer();
    peers_.Update({{"a", a_.address()}});
    round_ = {.id = std::string(16, 'r'), .line_id = kTestingLine, .snapshot = {20}, .fence = {10}};
    SetRecord(round_);
  }
  void SetRecord(const RoundName& round) {
    v1::RoundRecord record;
    record.set_value(round.id);
    record.set_line_id(round.line_id);
    record.set_snapshot_rev(round.snapshot.value);
    record.set_fence(round.fence.value);
    record.set_state(v1::ROUND_STATE_IN_FORCE);
    ASSERT_TRUE(catalog_
                    .Txn({.compares = {},
                          .writes = {CatalogWrite::Put(kRoundKey, record.SerializeAsString())}})
                    .ok());
  }
  std::shared_ptr<Peer> peer() { return peers_.Find("a"); }
  ObjectId Put(std::string_view content, uint64_t touched_rev) {
    auto put = PutContent(store_, content, {.touched_rev = {touched_rev}});
    EXPECT_TRUE(put.ok()) << put.status();
    return put->ref.id;
  }
  bool IsThere(const ObjectId& id) { return store_.Stat(kDefaultDomain, id)->has_value(); }

  SimulatedDisk disk_{1};
  MemoryObjectStore store_;
  MemoryCatalog catalog_;
  std::unique_ptr<RoundStore> round_store_;
  NodeRounds rounds_;
  TestingPeer a_{"a", store_};
  GrpcPeers peers_{TestingPeersOptions()};
  RoundName round_;
};

TEST_F(PeerRoundsTest, ANodeTellsOfWhichPartitionsItHasRows) {
  std::vector<bool> expected(size_t{1} << kBits);
  for (int i = 0; i < 6; ++i) {
    expected[Put(std::to_string(i), 1).Prefix64() >> (64 - kBits)] = true;
  }
  auto held = peer()->HeldPartitions(kDefaultDomain, kBits, {});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(*held, expected);
}

TEST_F(PeerRoundsTest, ListsAreStoredAndSweptStepByStep) {
  std::vector<ObjectId> garbage;
  for (int i = 0; i < 3'000; ++i) garbage.push_back(Put("garbage " + std::to_string(i), 5));
  const ObjectId touched = Put("touched since", 10);
  const ObjectId used = Put("in use", 5);
  RoundPart part{.round = round_, .ranges = {{0, 1}, {2, kEnd}}, .prefixes = {used.Prefix64()}};
  auto would = peer()->CountGarbage(part, {});
  ASSERT_TRUE(would.ok()) << would.status();
  EXPECT_EQ(would->deleted_objects, garbage.size());
  EXPECT_EQ(would->kept_objects, 1u);
  EXPECT_EQ(rounds_.fence(), Revision{});

  ASSERT_TRUE(peer()->StoreRoundPart(part, {}).ok());
  EXPECT_EQ(rounds_.fence(), Revision{10});
  uint64_t deleted = 0, bytes = 0, kept = 0;
  int steps = 0;
  std::optional<ObjectId> after;
  do {
    auto answer = peer()->SweepRound(kDefaultDomain, round_, after, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    deleted += answer->deleted_objects;
    bytes += answer->deleted_bytes;
    kept += answer->kept_objects;
    after = answer->next_after;
    ++steps;
  } while (after.has_value());
  EXPECT_EQ(deleted, garbage.size());
  EXPECT_EQ(bytes, would->deleted_bytes);
  EXPECT_EQ(kept, 1u);
  EXPECT_GT(steps, 2) << "each is bounded";
  EXPECT_TRUE(IsThere(touched) && IsThere(used));
  EXPECT_EQ(store_.Usage()->objects, 2u);
}

TEST_F(PeerRoundsTest, ARoundThatIsNotTheCatalogsIsRefusedWithItsReason) {
  const ObjectId garbage = Put("garbage", 5);
  RoundPart part{.round = round_, .ranges = {{0, kEnd}}, .prefixes = {}};
  ASSERT_TRUE(peer()->StoreRoundPart(part, {}).ok());
  RoundName another = round_;
  another.id = std::string(16, 'q');
  SetRecord(another);
  EXPECT_EQ(GetReason(peer()->SweepRound(kDefaultDomain, round_, std::nullopt, {}).status()),
            Reason::kVersionConflict);
  EXPECT_EQ(GetReason(peer()->StoreRoundPart(part, {})), Reason::kVersionConflict);
  EXPECT_TRUE(IsThere(garbage));
  a_.set_line("ANOTHERLINE-----");
  EXPECT_EQ(GetReason(peer()->HeldPartitions(kDefaultDomain, kBits, {}).status()),
            Reason::kCatalogRewound);
}

TEST_F(PeerRoundsTest, WhatIsNoPartIsRefused) {
  RoundPart part{.round = round_, .ranges = {{5, 4}}, .prefixes = {}};
  EXPECT_EQ(GetReason(peer()->StoreRoundPart(part, {})), Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(peer()->HeldPartitions(kDefaultDomain, 40, {}).status()),
            Reason::kInvalidArgument);
}

TEST_F(PeerRoundsTest, PutsAndLinksOfASessionBelowTheFenceAreLost) {
  const std::string content = "content";
  const ObjectRef ref{Put(content, 5), 0, content.size()};
  const auto link = [&](uint64_t session_rev) {
    return peer()->Link(kDefaultDomain, {&ref, 1}, {session_rev}, {}).status();
  };
  const auto put = [&](uint64_t session_rev) -> absl::Status {
    PutSpec spec{.expected = ref, .touched_rev = {session_rev}};
    TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CopyWriter> writer, peer()->NewCopy(spec, {}));
    auto owner = std::make_shared<std::string>(content);
    TILEKV_RETURN_IF_ERROR(writer->Append({AsBytes(*owner), owner}, {}));
    return writer->Finish().status();
  };
  EXPECT_TRUE(link(9).ok());
  EXPECT_TRUE(put(9).ok());
  ASSERT_TRUE(
      peer()->StoreRoundPart({.round = round_, .ranges = {{0, kEnd}}, .prefixes = {}}, {}).ok());
  EXPECT_EQ(GetReason(link(9)), Reason::kSessionLost);
  EXPECT_EQ(GetReason(put(9)), Reason::kSessionLost);
  EXPECT_TRUE(link(10).ok());
  EXPECT_TRUE(put(10).ok());
}

TEST_F(PeerRoundsTest, ANodeWithoutRoundsSaysSo) {
  a_.StopServer();
  a_.set_rounds(nullptr);
  a_.StartServer();
  EXPECT_EQ(GetReason(peer()->HeldPartitions(kDefaultDomain, kBits, {}).status()),
            Reason::kNodeUnavailable);
}

}  // namespace
}  // namespace tilekv
