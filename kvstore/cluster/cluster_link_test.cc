// Links in a cluster: what counts as present, and which copies are made on the way.
#include "kvstore/cluster/cluster_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kvstore/base/status.h"
#include "kvstore/cluster/memory_cluster.h"
#include "kvstore/object/object_store_conformance.h"

namespace tilekv {
namespace {

constexpr Revision kSession{70};
constexpr uint64_t kLength = 600 * kKiB;
const std::vector<std::string> kFive = {"a", "b", "c", "d", "e"};

std::string Sorted(std::string text) {
  std::sort(text.begin(), text.end());
  return text;
}

absl::StatusOr<LinkResult> LinkOne(MemoryCluster& cluster, const ObjectRef& ref) {
  TILEKV_ASSIGN_OR_RETURN(auto results,
                          cluster.objects().Link(kDefaultDomain, {&ref, 1}, kSession));
  return results.at(0);
}

TEST(ClusterLink, RaisesAllCopiesAndAsksEachNodeOnceForAllObjects) {
  MemoryCluster cluster;
  std::vector<ObjectRef> refs;
  for (uint64_t i = 0; i < 50; ++i) {
    const std::string content = TestContent(100 + i, i);
    for (const char* id : {"a", "b", "c"}) cluster.PutAt(id, content);
    refs.push_back(RefOf(0, AsBytes(content)));
  }
  const auto results = cluster.objects().Link(kDefaultDomain, refs, kSession);
  ASSERT_TRUE(results.ok()) << results.status();
  for (size_t i = 0; i < refs.size(); ++i) {
    EXPECT_TRUE((*results)[i].present && (*results)[i].trusted);
    EXPECT_EQ(cluster.Holders(refs[i].id, kSession), "abc");
  }
  EXPECT_EQ(cluster.node("b").log.links, 1);
  EXPECT_EQ(cluster.node("c").log.links, 1);
  EXPECT_EQ(cluster.objects().counters().linked_copies, 0u);
}

TEST(ClusterLink, SaysWhichOfSeveralAreMissing) {
  MemoryCluster cluster;
  std::vector<ObjectRef> refs;
  for (uint64_t i = 0; i < 6; ++i) {
    const std::string content = TestContent(1000, i);
    refs.push_back(RefOf(0, AsBytes(content)));
    if (i % 2 == 0) continue;
    cluster.PutAt("b", content);
    cluster.PutAt("c", content);
  }
  const auto results = *cluster.objects().Link(kDefaultDomain, refs, kSession);
  for (size_t i = 0; i < refs.size(); ++i) EXPECT_EQ(results[i].present, i % 2 == 1) << i;
}

TEST(ClusterLink, MakesCopiesWhereOwnersLackOneWithTheSessionsRevision) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 1);
  const Encoding zstd{EncodingKind::kZstd, 0};
  const ObjectRef ref = cluster.PutAt("b", content, {5}, zstd);
  const auto linked = LinkOne(cluster, ref);
  ASSERT_TRUE(linked.ok()) << linked.status();
  EXPECT_TRUE(linked->present);
  EXPECT_EQ(cluster.Holders(ref.id, kSession), "abc");
  EXPECT_EQ(cluster.objects().counters().linked_copies, 2u);
  EXPECT_EQ(*GetContent(*cluster.node("c").store, ref.id), content);
  EXPECT_EQ((*cluster.node("c").store->Stat(kDefaultDomain, ref.id))->encoding, zstd);
}

TEST(ClusterLink, IsNotPresentWhereFewerThanTheMinimumHoldItAndNobodyTakesACopy) {
  MemoryCluster cluster;
  const ObjectRef ref = cluster.PutAt("a", TestContent(kLength, 2));
  cluster.node("b").faults.full = true;
  cluster.node("c").faults.down = true;
  EXPECT_FALSE(LinkOne(cluster, ref)->present);
  cluster.node("b").faults.full = false;
  EXPECT_TRUE(LinkOne(cluster, ref)->present);
  EXPECT_EQ(cluster.objects().counters().short_links, 1u);
}

TEST(ClusterLink, AsksTheNextNodeForAnOwnerThatDoesNotAnswer) {
  MemoryCluster cluster({.nodes = kFive});
  const std::string content =
      cluster.ContentFor(kLength, [](const auto& order) { return order[0] != "a"; });
  const std::vector<std::string> order = cluster.OrderOf(IdOf(0, AsBytes(content)));
  ObjectRef ref;
  for (size_t i : {0, 1, 2}) ref = cluster.PutAt(order[i], content);
  cluster.node(order[0]).faults.down = true;
  ASSERT_TRUE(LinkOne(cluster, ref)->present);
  EXPECT_EQ(cluster.Holders(ref.id, kSession), Sorted(order[1] + order[2] + order[3]));
  EXPECT_EQ(cluster.objects().counters().linked_copies, 1u);
  // That node has one by now: it is asked, and none is sent.
  ASSERT_TRUE(LinkOne(cluster, ref)->present);
  EXPECT_EQ(cluster.objects().counters().linked_copies, 1u);
}

TEST(ClusterLink, FindsWhatIsOnlyAtNodesThatOwnItNoMore) {
  MemoryCluster cluster(
      {.nodes = kFive, .states = {{"d", NodeState::kDraining}, {"e", NodeState::kOut}}});
  const std::string content = TestContent(kLength, 3);
  cluster.PutAt("d", content);
  const ObjectRef ref = cluster.PutAt("e", content);
  EXPECT_TRUE(LinkOne(cluster, ref)->present);
  EXPECT_EQ(cluster.Holders(ref.id, kSession).substr(0, 1), "a");
  EXPECT_GE(cluster.Holders(ref.id, kSession).size(), 3u);
}

TEST(ClusterLink, DoesNotWaitForNodesThatAreNotLikelyToAnswer) {
  MemoryCluster cluster;
  cluster.node("c").faults.unlikely = true;
  const std::string content = TestContent(kLength, 4);
  EXPECT_FALSE(LinkOne(cluster, RefOf(0, AsBytes(content)))->present);
  cluster.PutAt("a", content);
  const ObjectRef ref = cluster.PutAt("b", content);
  EXPECT_TRUE(LinkOne(cluster, ref)->present);
  EXPECT_EQ(cluster.node("c").log.links, 0);
  EXPECT_EQ(cluster.node("c").log.copies, 0);
}

TEST(ClusterLink, GivesACopyToANodeThatIsNotLikelyToAnswerForTheSakeOfTheMinimum) {
  MemoryCluster cluster;
  cluster.node("b").faults.unlikely = true;
  cluster.node("c").faults.unlikely = true;
  const ObjectRef ref = cluster.PutAt("a", TestContent(kLength, 5));
  EXPECT_TRUE(LinkOne(cluster, ref)->present);
  EXPECT_EQ(cluster.Holders(ref.id, kSession).size(), 2u);
}

TEST(ClusterLink, ReportsADamagedCopyAndCopiesFromAnother) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 6);
  cluster.PutAt("b", content);
  const ObjectRef ref = cluster.PutAt("c", content);
  // Both orders: whichever is taken as the source first.
  for (const char* damaged : {"b", "c"}) {
    MemoryCluster fresh;
    fresh.PutAt("b", content);
    fresh.PutAt("c", content);
    fresh.node(damaged).store->FlipBit(kDefaultDomain, ref.id, kLength - 1);
    ASSERT_TRUE(LinkOne(fresh, ref).ok());
    EXPECT_EQ(*GetContent(*fresh.node("a").store, ref.id), content);
    EXPECT_EQ(fresh.objects().counters().linked_copies, 1u);
  }
}

TEST(ClusterLink, DoesNotCountACopyThatProvedDamaged) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 7);
  const ObjectRef ref = RefOf(0, AsBytes(content));
  for (const char* id : {"b", "c"}) {
    cluster.PutAt(id, content);
    cluster.node(id).store->FlipBit(kDefaultDomain, ref.id, 5);
  }
  EXPECT_FALSE(LinkOne(cluster, ref)->present);
  EXPECT_EQ(cluster.node("b").log.damages, 1);
  EXPECT_EQ(cluster.node("c").log.damages, 1);
  EXPECT_EQ(cluster.Holders(ref.id), "");
}

TEST(ClusterLink, CountsAStoreOnceHoweverManyNodesAnswerForIt) {
  MemoryCluster cluster;
  cluster.node("c").faults.store_uuid = cluster.node("b").store->store_uuid();
  cluster.self().store->full = true;
  const std::string content = TestContent(kLength, 8);
  cluster.PutAt("b", content);
  const ObjectRef ref = cluster.PutAt("c", content);
  EXPECT_FALSE(LinkOne(cluster, ref)->present);
}

TEST(ClusterLink, CountsOnlyCopiesOfThatLevelAndLength) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 9);
  ObjectRef ref;
  for (const char* id : {"a", "b", "c"}) ref = cluster.PutAt(id, content);
  ref.length -= 1;
  EXPECT_FALSE(LinkOne(cluster, ref)->present);
}

TEST(ClusterLink, TrustsWhatTheMinimumOfStoresHasLookedAtLately) {
  MemoryCluster cluster;
  const std::string content = TestContent(kLength, 10);
  ObjectRef ref;
  for (const char* id : {"a", "b", "c"}) ref = cluster.PutAt(id, content);
  cluster.clock().Advance((kVerifiedFor_s + 1) * 1'000'000);
  EXPECT_TRUE(LinkOne(cluster, ref)->present);
  EXPECT_FALSE(LinkOne(cluster, ref)->trusted);
  ASSERT_TRUE(*cluster.node("b").store->Verify(kDefaultDomain, ref.id));
  EXPECT_FALSE(LinkOne(cluster, ref)->trusted);
  ASSERT_TRUE(*cluster.node("c").store->Verify(kDefaultDomain, ref.id));
  EXPECT_TRUE(LinkOne(cluster, ref)->trusted);
}

TEST(ClusterLink, StopsMakingCopiesThatTheMinimumDoesNotNeedBeforeItsCallerGivesUp) {
  MemoryCluster cluster({.nodes = kFive});
  std::vector<ObjectRef> refs;
  for (uint64_t i = 0; i < 8; ++i) {
    const std::string content = cluster.ContentFor(kLength + i, [](const auto& order) {
      return order[0] == "a" && order[1] == "b" && order[2] == "c";
    });
    cluster.PutAt("a", content);
    if (i < 6) cluster.PutAt("b", content);
    refs.push_back(RefOf(0, AsBytes(content)));
  }
  // Each try at it takes two seconds.
  for (const char* id : {"c", "d", "e"}) cluster.node(id).faults.stands_still = true;
  const auto results = *cluster.objects().Link(kDefaultDomain, refs, kSession);
  for (const LinkResult& result : results) EXPECT_TRUE(result.present);
  EXPECT_EQ(cluster.Holders(refs[7].id, kSession), "ab");
  // Both that were needed, and the first of the others.
  EXPECT_LE(cluster.node("c").log.copies, 3);
}

TEST(ClusterLink, DoesNotWaitForALateNodeWhereEnoughOthersHaveAnswered) {
  Gate gate;
  auto pool = std::make_unique<ThreadPool>("link", 3);
  MemoryCluster cluster({.executor = pool.get(), .late_after_ms = 1});
  const std::string content = TestContent(kLength, 12);
  ObjectRef ref;
  for (const char* id : {"a", "b", "c"}) ref = cluster.PutAt(id, content);
  cluster.node("c").faults.before_link = [&gate] { gate.Pass(); };
  // b too may be late; then it is waited for, since it is needed.
  EXPECT_TRUE(LinkOne(cluster, ref)->present);
  EXPECT_TRUE(LinkOne(cluster, ref)->present);
  EXPECT_EQ(cluster.node("c").log.links, 1) << "it is left alone for a while";
  EXPECT_EQ(cluster.node("c").log.copies, 0);
  cluster.clock().Advance(kPeerCall_ms * 1'000);
  EXPECT_TRUE(LinkOne(cluster, ref)->present);
  gate.Open();
  pool.reset();
  EXPECT_EQ(cluster.node("c").log.links, 2);
}

TEST(ClusterLink, PassesOnThatTheSessionIsLost) {
  MemoryCluster cluster;
  cluster.node("c").faults.session_lost = true;
  const ObjectRef ref = cluster.PutAt("b", TestContent(kLength, 11));
  EXPECT_EQ(GetReason(LinkOne(cluster, ref).status()), Reason::kSessionLost);
}

TEST(ClusterLink, LinksWithManyThreadsAsWithNone) {
  auto pool = std::make_unique<ThreadPool>("link", 4);
  MemoryCluster cluster({.nodes = kFive, .executor = pool.get()});
  std::vector<ObjectRef> refs;
  for (uint64_t i = 0; i < 40; ++i) {
    refs.push_back(cluster.PutAt(kFive[i % 5], TestContent(80'000 + i, i)));
  }
  const auto results = cluster.objects().Link(kDefaultDomain, refs, kSession);
  ASSERT_TRUE(results.ok()) << results.status();
  for (size_t i = 0; i < refs.size(); ++i) {
    EXPECT_TRUE((*results)[i].present) << i;
    EXPECT_GE(cluster.Holders(refs[i].id, kSession).size(), 3u) << i;
  }
  pool.reset();  // before the nodes that its work may touch
}

}  // namespace
}  // namespace tilekv
