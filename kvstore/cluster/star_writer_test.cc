// Puts into a cluster: who gets a copy, who counts, and what is said when too few do.
#include "kvstore/cluster/star_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kvstore/base/status.h"
#include "kvstore/cluster/memory_cluster.h"
#include "kvstore/object/object_store_conformance.h"

namespace tilekv {
namespace {

using testing::HasSubstr;

constexpr Revision kSession{70};
constexpr uint64_t kLength = 3 * kMiB + 5;
const std::vector<std::string> kFive = {"a", "b", "c", "d", "e"};

bool SelfOwns(const std::vector<std::string>& order) {
  return order[0] == "a" || order[1] == "a" || order[2] == "a";
}
bool SelfIsLast(const std::vector<std::string>& order) { return order.back() == "a"; }

std::string Sorted(std::string text) {
  std::sort(text.begin(), text.end());
  return text;
}
// The first nodes of an order, as Holders gives them.
std::string First(const std::vector<std::string>& order, size_t count) {
  std::string nodes;
  for (size_t i = 0; i < count; ++i) nodes += order[i];
  return Sorted(nodes);
}

absl::StatusOr<PutOutcome> Put(MemoryCluster& cluster, std::string_view content,
                               PutPieces how = {}) {
  how.touched_rev = kSession;
  return PutContent(cluster.objects(), content, how);
}

TEST(StarWriter, WritesToAllOwnersAndToNobodyElse) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = cluster.ContentFor(kLength, SelfOwns);
  const auto put = Put(cluster, content);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_TRUE(put->stored);
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), First(cluster.OrderOf(put->ref.id), 3));
  EXPECT_EQ(cluster.Holders(put->ref.id), First(cluster.OrderOf(put->ref.id), 3));
  EXPECT_EQ(cluster.objects().counters().short_writes, 0u);
}

TEST(StarWriter, SendsCodedBlocksAsTheyCame) {
  MemoryCluster cluster;
  const Encoding zstd{EncodingKind::kZstd, 0};
  const std::string content = TestContent(kLength, 1);
  const auto put = Put(cluster, content, {.encoding = zstd});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), "abc");
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_EQ((*cluster.node(id).store->Stat(kDefaultDomain, put->ref.id))->encoding, zstd) << id;
    EXPECT_EQ(*GetContent(*cluster.node(id).store, put->ref.id), content) << id;
  }
}

TEST(StarWriter, PutsEmptyContentToo) {
  MemoryCluster cluster;
  for (bool declare : {true, false}) {
    const auto put = Put(cluster, "", {.declare = declare});
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_EQ(cluster.Holders(put->ref.id, kSession), "abc");
  }
}

TEST(StarWriter, SaysWhetherAnyStoreDidNotHaveIt) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 2);
  cluster.PutAt("a", content);
  cluster.PutAt("b", content);
  EXPECT_TRUE(Put(cluster, content)->stored);
  EXPECT_FALSE(Put(cluster, content)->stored);
}

TEST(StarWriter, PassesBytesOnWhereItsNodeOwnsNothing) {
  MemoryCluster cluster({.nodes = kFive});
  const auto put = Put(cluster, cluster.ContentFor(kLength, SelfIsLast));
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), First(cluster.OrderOf(put->ref.id), 3));
}

TEST(StarWriter, KeepsACopyAtANodeThatOwnsNothingWhereTooFewOthersTakeOne) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = cluster.ContentFor(kLength, SelfIsLast);
  const std::vector<std::string> order = cluster.OrderOf(IdOf(0, AsBytes(content)));
  cluster.node(order[0]).faults.full = true;
  cluster.node(order[3]).faults.down = true;
  const auto put = Put(cluster, content);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), Sorted(order[1] + order[2] + "a"));
}

TEST(StarWriter, KeepsNoCopyAtANodeThatOwnsNothingWhereAnyOtherTakesOne) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content =
      cluster.ContentFor(kLength, [](const auto& order) { return order[3] == "a"; });
  const std::vector<std::string> order = cluster.OrderOf(IdOf(0, AsBytes(content)));
  cluster.node(order[1]).faults.full = true;
  const auto put = Put(cluster, content);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.Holders(put->ref.id), Sorted(order[0] + order[2] + order[4]));
}

TEST(StarWriter, GivesTheNextNodeOfTheOrderACopyWhereOneBrokeOff) {
  for (auto who : {SelfOwns, SelfIsLast}) {
    MemoryCluster cluster({.nodes = kFive});
    const std::string content = cluster.ContentFor(
        kLength, [&](const auto& order) { return order[1] != "a" && who(order); });
    const std::vector<std::string> order = cluster.OrderOf(IdOf(0, AsBytes(content)));
    cluster.node(order[1]).faults.cut_after_bytes = kMiB;
    const auto put = Put(cluster, content, {.encoding = {EncodingKind::kZstd, 0}});
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_EQ(cluster.Holders(put->ref.id, kSession), Sorted(order[0] + order[2] + order[3]));
    EXPECT_EQ(*GetContent(*cluster.node(order[3]).store, put->ref.id), content);
    EXPECT_EQ(cluster.objects().counters().fallback_copies, 1u);
    EXPECT_EQ(cluster.objects().counters().short_writes, 0u);
  }
}

TEST(StarWriter, GivesUpACopyThatStandsStillAndOnlyOnce) {
  MemoryCluster cluster({.nodes = {"a", "b", "c", "d"}});
  const std::string content = cluster.ContentFor(
      kLength, [](const auto& order) { return SelfOwns(order) && order[3] == "d"; });
  cluster.node("b").faults.stands_still = true;
  const int64_t began_nanos = cluster.clock().MonotonicNanos();
  const auto put = Put(cluster, content, {.piece_bytes = 64 * kKiB});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), "acd");
  EXPECT_EQ(cluster.clock().MonotonicNanos() - began_nanos, kCopyStall_ms * 1'000'000);
}

TEST(StarWriter, SucceedsWithFewerThanAllAndTellsIt) {
  MemoryCluster cluster;
  cluster.node("c").faults.down = true;
  const auto put = Put(cluster, TestContent(kLength, 3));
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), "ab");
  EXPECT_EQ(cluster.objects().counters().short_writes, 1u);
  EXPECT_EQ(cluster.objects().counters().failed_copies, 1u);
}

TEST(StarWriter, RefusesWithFewerThanTheMinimumAndSaysTheFiguresAndTheNodes) {
  MemoryCluster cluster;
  cluster.node("b").faults.cut_after_bytes = kMiB;
  cluster.node("c").faults.full = true;
  const auto put = Put(cluster, TestContent(kLength, 4));
  EXPECT_EQ(GetReason(put.status()), Reason::kTooFewCopies);
  const std::string text = ErrorText(put.status());
  EXPECT_THAT(text, HasSubstr("of 3 stores have it, 2 are needed"));
  EXPECT_THAT(text, HasSubstr("node b: NODE_UNAVAILABLE"));
  EXPECT_THAT(text, HasSubstr("node c: STORE_FULL"));
  EXPECT_EQ(cluster.objects().counters().refused_writes, 1u);
}

TEST(StarWriter, RefusesBeforeAnyByteWhereTooFewNodesTakeACopy) {
  MemoryCluster cluster;
  cluster.node("b").faults.full = true;
  cluster.node("c").faults.full = true;
  PutSpec spec{.expected = RefOf(0, AsBytes("x"))};
  const absl::Status status = cluster.objects().NewWriter(spec).status();
  EXPECT_EQ(GetReason(status), Reason::kStoreFull) << status;
}

TEST(StarWriter, TakesNoMoreBytesForAPutThatCannotSucceed) {
  MemoryCluster cluster;
  cluster.node("b").faults.cut_after_bytes = kMiB;
  cluster.node("c").faults.cut_after_bytes = kMiB;
  const std::string content = TestContent(kLength, 5);
  auto writer = cluster.objects().NewWriter({.expected = RefOf(0, AsBytes(content))});
  ASSERT_TRUE(writer.ok());
  EXPECT_TRUE((*writer)->Append(AsBytes(content).first(kMiB)).ok());
  EXPECT_EQ(GetReason((*writer)->Append(AsBytes(content).subspan(kMiB, kMiB))),
            Reason::kTooFewCopies);
  EXPECT_FALSE((*writer)->Finish().ok());
}

TEST(StarWriter, CountsStoresAndNotTheNodesThatAnswerForThem) {
  ClusterSettings settings;
  settings.min_copies = 3;
  MemoryCluster cluster({.settings = settings});
  cluster.node("c").faults.store_uuid = cluster.node("b").store->store_uuid();
  const auto put = Put(cluster, TestContent(kLength, 6));
  EXPECT_EQ(GetReason(put.status()), Reason::kTooFewCopies);
  EXPECT_THAT(ErrorText(put.status()), HasSubstr("2 of 3 stores"));
}

TEST(StarWriter, AsksOneMoreNodeWhereTwoAnswerForOneStore) {
  MemoryCluster cluster({.nodes = {"a", "b", "c", "d"}});
  const std::string content = cluster.ContentFor(
      kLength, [](const auto& order) { return SelfOwns(order) && order[3] == "d"; });
  cluster.node("c").faults.store_uuid = cluster.node("b").store->store_uuid();
  const auto put = Put(cluster, content);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), "abcd");
  EXPECT_EQ(cluster.objects().counters().short_writes, 0u);
}

TEST(StarWriter, DoesNotCountAnAnswerWithAnOlderRevision) {
  MemoryCluster cluster;
  cluster.node("b").faults.answers_old = true;
  cluster.node("c").faults.down = true;
  EXPECT_EQ(GetReason(Put(cluster, TestContent(kLength, 7)).status()), Reason::kTooFewCopies);
}

TEST(StarWriter, WritesElsewhereWhereItsOwnDiskIsFull) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = cluster.ContentFor(kLength, SelfOwns);
  std::vector<std::string> order = cluster.OrderOf(IdOf(0, AsBytes(content)));
  std::erase(order, "a");
  cluster.self().store->full = true;
  const auto put = Put(cluster, content);
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), First(order, 3));
}

TEST(StarWriter, DoesNotWaitForNodesThatAreNotLikelyToAnswer) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = cluster.ContentFor(kLength, SelfOwns);
  std::vector<std::string> order = cluster.OrderOf(IdOf(0, AsBytes(content)));
  const std::string away = order[order[0] == "a" ? 1 : 0];
  cluster.node(away).faults.unlikely = true;
  const auto put = Put(cluster, content);
  ASSERT_TRUE(put.ok()) << put.status();
  std::erase(order, away);
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), First(order, 3));
  EXPECT_EQ(cluster.node(away).log.copies, 0);
}

TEST(StarWriter, AsksNodesThatAreNotLikelyToAnswerForTheSakeOfTheMinimum) {
  MemoryCluster cluster;
  cluster.node("b").faults.unlikely = true;
  cluster.node("c").faults.unlikely = true;
  const auto put = Put(cluster, TestContent(kLength, 8));
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession).size(), 2u);
}

TEST(StarWriter, SendsOneCopyOfTheBytesToAllPeersWithinTheBudget) {
  constexpr uint64_t kBudget = kMiB + kMiB / 2;
  MemoryCluster cluster({.replica_budget_bytes = kBudget});
  const auto put = Put(cluster, TestContent(kLength, 9));
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.node("b").log.pieces().size(), 4u);
  EXPECT_EQ(cluster.node("b").log.pieces(), cluster.node("c").log.pieces());
  EXPECT_LE(cluster.budget().peak_bytes(), kBudget);
  EXPECT_EQ(cluster.budget().used_bytes(), 0u);
}

TEST(StarWriter, RefusesContentThatIsNotWhatWasAnnounced) {
  for (auto who : {SelfOwns, SelfIsLast}) {
    MemoryCluster cluster({.nodes = kFive});
    const std::string content = cluster.ContentFor(kLength, who);
    const ObjectRef ref = RefOf(0, AsBytes(content));
    std::string other = content;
    other[7] ^= 1;
    auto writer = *cluster.objects().NewWriter({.expected = ref, .touched_rev = kSession});
    ASSERT_TRUE(writer->Append(AsBytes(other)).ok());
    EXPECT_EQ(GetReason(writer->Finish().status()), Reason::kDataLoss);
    writer = *cluster.objects().NewWriter({.expected = ref, .touched_rev = kSession});
    EXPECT_EQ(GetReason(writer->Append(AsBytes(content + "x"))), Reason::kInvalidArgument);
    writer.reset();
    EXPECT_EQ(cluster.Holders(ref.id), "");
  }
}

TEST(StarWriter, SaysWhatTheOthersFoundWhereItsOwnDiskTookNothing) {
  MemoryCluster cluster;
  cluster.self().store->full = true;
  const std::string content = TestContent(kLength, 10);
  std::string other = content;
  other[7] ^= 1;
  auto writer = *cluster.objects().NewWriter({.expected = RefOf(0, AsBytes(content))});
  ASSERT_TRUE(writer->Append(AsBytes(other)).ok());
  EXPECT_EQ(GetReason(writer->Finish().status()), Reason::kDataLoss);
}

TEST(StarWriter, PassesOnThatTheSessionIsLost) {
  MemoryCluster cluster;
  cluster.node("b").faults.session_lost = true;
  cluster.node("c").faults.session_lost = true;
  EXPECT_EQ(GetReason(Put(cluster, TestContent(kLength, 11)).status()), Reason::kSessionLost);
}

TEST(StarWriter, LeavesNothingOfAPutThatIsAbandoned) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 12);
  {
    auto writer = *cluster.objects().NewWriter({.expected = RefOf(0, AsBytes(content))});
    ASSERT_TRUE(writer->Append(AsBytes(content).first(kMiB)).ok());
  }
  EXPECT_EQ(cluster.Holders(IdOf(0, AsBytes(content))), "");
  EXPECT_EQ(cluster.budget().used_bytes(), 0u);
}

TEST(SpoolWriter, PutsSmallContentOfUnknownHashAtItsOwnersOnly) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = cluster.ContentFor(1000, SelfIsLast);
  const auto put = Put(cluster, content, {.declare = false, .piece_bytes = 300});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(put->ref, RefOf(0, AsBytes(content)));
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), First(cluster.OrderOf(put->ref.id), 3));
}

TEST(SpoolWriter, CopiesLargeContentToItsOwnersOnceItHasAName) {
  for (auto who : {SelfOwns, SelfIsLast}) {
    MemoryCluster cluster({.nodes = kFive});
    const std::string content = cluster.ContentFor(kLength, who);
    const auto put = Put(cluster, content, {.declare = false, .piece_bytes = 50'000});
    ASSERT_TRUE(put.ok()) << put.status();
    const std::string owners = First(cluster.OrderOf(put->ref.id), 3);
    EXPECT_EQ(cluster.Holders(put->ref.id, kSession), who == SelfOwns ? owners : "a" + owners);
    EXPECT_EQ(cluster.node("b").store->Usage()->content_bytes % kLength, 0u);
    EXPECT_EQ(cluster.objects().counters().short_writes, 0u);
  }
}

TEST(SpoolWriter, CountsItsOwnCopyWhereTooFewOwnersTakeOne) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content = cluster.ContentFor(kLength, SelfIsLast);
  const std::vector<std::string> order = cluster.OrderOf(IdOf(0, AsBytes(content)));
  for (size_t i = 0; i < 3; ++i) cluster.node(order[i]).faults.down = true;
  const auto put = Put(cluster, content, {.declare = false});
  ASSERT_TRUE(put.ok()) << put.status();
  EXPECT_EQ(cluster.Holders(put->ref.id, kSession), Sorted("a" + order[3]));
  EXPECT_EQ(cluster.objects().counters().short_writes, 1u);
}

TEST(SpoolWriter, RefusesWithFewerThanTheMinimum) {
  MemoryCluster cluster;
  cluster.node("b").faults.down = true;
  cluster.node("c").faults.down = true;
  for (uint64_t length : {uint64_t{100}, kLength}) {
    EXPECT_EQ(GetReason(Put(cluster, TestContent(length, 13), {.declare = false}).status()),
              Reason::kTooFewCopies);
  }
}

TEST(SpoolWriter, HoldsContentToItsDeclaredLengthAndToTheLimit) {
  MemoryCluster cluster({.max_object_bytes = 100 * kKiB});
  auto writer = *cluster.objects().NewWriter({.length = 10});
  EXPECT_EQ(GetReason(writer->Append(AsBytes(std::string(11, 'x')))), Reason::kInvalidArgument);
  writer = *cluster.objects().NewWriter({.length = 10});
  ASSERT_TRUE(writer->Append(AsBytes("short")).ok());
  EXPECT_EQ(GetReason(writer->Finish().status()), Reason::kInvalidArgument);
  writer = *cluster.objects().NewWriter({});
  ASSERT_TRUE(writer->Append(AsBytes(std::string(60 * kKiB, 'x'))).ok());
  EXPECT_EQ(GetReason(writer->Append(AsBytes(std::string(60 * kKiB, 'x')))),
            Reason::kObjectTooLarge);
}

}  // namespace
}  // namespace tilekv
