#include "kvstore/cluster/repairer.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/base/status.h"
#include "kvstore/cluster/copy_refusals.h"
#include "kvstore/cluster/repair_test_util.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_store_conformance.h"

namespace tilekv {
namespace {

const std::vector<std::string> kThree = {"a", "b", "c"};
const std::vector<std::string> kFive = {"a", "b", "c", "d", "e"};

TEST(Repairer, RefillsANodeWithAnEmptyDisk) {
  RepairingCluster nodes(RepairedCluster(kFive));
  const auto refs = nodes.PutMany(300);
  const std::string large = TestContent(3 * kMiB + 17, 1);
  const ObjectRef large_ref = nodes.PutAtOwners(large, {7});
  const std::string holder = nodes.OwnersOf(large_ref.id).substr(0, 1);
  nodes.Wipe(holder);
  ASSERT_TRUE(nodes.RunUntilQuiet());
  EXPECT_EQ(nodes.CountSettled(refs), refs.size());
  EXPECT_EQ(nodes.cluster.Holders(large_ref.id, {7}), nodes.OwnersOf(large_ref.id));
  EXPECT_EQ(*GetContent(*nodes.cluster.node(holder).store, large_ref.id), large);
  EXPECT_EQ(nodes.at(holder).counters().pulled_objects, nodes.CountAt(holder));
  EXPECT_EQ(nodes.budget(holder).used_bytes(), 0u);
  EXPECT_LE(nodes.budget(holder).peak_bytes(), RepairingCluster::kBudgetBytes);
}

TEST(Repairer, PullsCodedCopiesAsTheyAre) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const std::string content = TestContent(2 * kMiB + 5, 1);
  const Encoding zstd{.kind = EncodingKind::kZstd};
  const ObjectRef ref = nodes.cluster.PutAt("a", content, {5}, zstd);
  nodes.cluster.PutAt("b", content, {5}, zstd);
  ASSERT_TRUE(nodes.RunUntilQuiet());
  const ObjectRow row = **nodes.cluster.node("c").store->Stat(kDefaultDomain, ref.id);
  EXPECT_EQ(row.encoding.kind, EncodingKind::kZstd);
  EXPECT_EQ(row.touched_rev, Revision{5});
  EXPECT_EQ(*GetContent(*nodes.cluster.node("c").store, ref.id), content);
}

// What a digest of ids alone would not see.
TEST(Repairer, RaisesRevisionsThatDifferToTheLarger) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const auto refs = nodes.PutMany(40);
  ASSERT_TRUE(nodes.RunUntilQuiet());
  // Each node has the largest revision of some.
  for (size_t i = 0; i < refs.size(); ++i) {
    auto& store = *nodes.cluster.node(kThree[i % 3]).store;
    ASSERT_TRUE(store.Link(kDefaultDomain, {&refs[i], 1}, {100 + i}).ok());
  }
  ASSERT_TRUE(nodes.RunUntil([&] { return nodes.CountSettled(refs) == refs.size(); }));
  for (size_t i = 0; i < refs.size(); ++i) {
    EXPECT_EQ(nodes.cluster.Holders(refs[i].id, {100 + i}), "abc") << i;
  }
  EXPECT_EQ(nodes.at("a").counters().pulled_objects, 0u);
}

TEST(Repairer, OneNodeThatRepairsRaisesRevisionsBothWays) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const auto refs = nodes.PutMany(2);
  ASSERT_TRUE(nodes.cluster.node("a").store->Link(kDefaultDomain, {&refs[0], 1}, {9}).ok());
  ASSERT_TRUE(nodes.cluster.node("b").store->Link(kDefaultDomain, {&refs[1], 1}, {9}).ok());
  for (int i = 0; i < 30; ++i) {
    nodes.StepOf("a");
    nodes.cluster.clock().Advance(1'000'000);
  }
  EXPECT_EQ(nodes.cluster.Holders(refs[0].id, {9}), "abc");
  EXPECT_EQ(nodes.cluster.Holders(refs[1].id, {9}), "abc");
}

TEST(Repairer, APulledCopyHasTheRevisionOfItsSource) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const ObjectRef ref = nodes.cluster.PutAt("b", "content", {5});
  nodes.cluster.PutAt("c", "content", {8});
  while (nodes.CountAt("a") == 0) nodes.StepOf("a");
  EXPECT_EQ(nodes.cluster.Holders(ref.id, {8}).front(), 'a') << "the greater of both, at once";
}

TEST(Repairer, ARevisionThatGrewAtTheSourceIsPulledToo) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const ObjectRef ref = nodes.cluster.PutAt("b", "content", {5});
  nodes.cluster.node("b").faults.before_open = [&] {
    (void)nodes.cluster.node("b").store->Link(kDefaultDomain, {&ref, 1}, {9});
  };
  while (nodes.CountAt("a") == 0) nodes.StepOf("a");
  EXPECT_EQ(nodes.cluster.Holders(ref.id, {9}), "ab");
}

TEST(Repairer, DoesNotSpreadARottenCopy) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const std::string content = TestContent(300'000, 1);
  const ObjectRef ref = nodes.cluster.PutAt("b", content, {5});
  nodes.cluster.PutAt("c", content, {5});
  nodes.cluster.node("b").store->FlipBit(kDefaultDomain, ref.id, 200'000);
  nodes.cluster.node("c").store->FlipBit(kDefaultDomain, ref.id, 100);
  nodes.RunFor(30);
  EXPECT_EQ(nodes.cluster.Holders(ref.id), "") << "both were reported, and nothing came of them";
  EXPECT_EQ(nodes.at("b").progress().missing_objects, 1u) << "it keeps what is left of it";
  // One of them comes back sound.
  nodes.cluster.PutAt("c", content, {6});
  ASSERT_TRUE(nodes.RunUntilQuiet());
  EXPECT_EQ(nodes.cluster.Holders(ref.id, {6}), "abc");
  EXPECT_EQ(*GetContent(*nodes.cluster.node("a").store, ref.id), content);
  EXPECT_EQ(nodes.at("b").progress().missing_objects, 0u);
}

TEST(Repairer, TakesTheNextCopyWhereOneProvesDamaged) {
  // Whichever is asked first.
  for (const char* rotten : {"b", "c"}) {
    RepairingCluster nodes(RepairedCluster(kThree));
    const std::string content = TestContent(300'000, 1);
    const ObjectRef ref = nodes.cluster.PutAt("b", content, {5});
    nodes.cluster.PutAt("c", content, {5});
    nodes.cluster.node(rotten).store->FlipBit(kDefaultDomain, ref.id, 290'000);
    ASSERT_TRUE(nodes.RunUntilQuiet());
    EXPECT_EQ(*GetContent(*nodes.cluster.node("a").store, ref.id), content) << rotten;
    if (nodes.at("a").counters().damaged_sources > 0) {
      EXPECT_EQ(*GetContent(*nodes.cluster.node(rotten).store, ref.id), content) << rotten;
      return;
    }
  }
  FAIL() << "the rotten copy was never asked for";
}

TEST(Repairer, HealsWhatIsInQuarantineAndLooksAtWhatIsSuspect) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const std::string content = TestContent(300'000, 1);
  const ObjectRef rotten = nodes.PutAtOwners(content);
  const ObjectRef sound = nodes.PutAtOwners("reported by a reader that was wrong");
  TestStore& store = *nodes.cluster.node("a").store;
  store.FlipBit(kDefaultDomain, rotten.id, 17);
  ASSERT_FALSE(*store.Verify(kDefaultDomain, rotten.id));
  ASSERT_TRUE(store.MarkSuspect(kDefaultDomain, sound.id).ok());
  ASSERT_TRUE(nodes.RunUntilQuiet());
  EXPECT_EQ(nodes.cluster.Holders(rotten.id), "abc");
  EXPECT_EQ(nodes.cluster.Holders(sound.id), "abc");
  EXPECT_EQ(*GetContent(store, rotten.id), content);
  EXPECT_EQ(nodes.at("a").counters().pulled_objects, 1u);
}

TEST(Repairer, PullsFromASuspectCopyWhereThereIsNoOther) {
  RepairingCluster nodes(RepairedCluster({"a", "b", "c", "d"}));
  const std::string content =
      nodes.cluster.ContentFor(1'000, [](const auto& order) { return order.back() == "a"; });
  const ObjectRef ref = nodes.cluster.PutAt("a", content, {5});
  ASSERT_TRUE(nodes.cluster.node("a").store->MarkSuspect(kDefaultDomain, ref.id).ok());
  ASSERT_TRUE(nodes.RunUntilQuiet());
  EXPECT_EQ(nodes.cluster.Holders(ref.id, {5}), "bcd");
}

TEST(Repairer, PullsWhatIsHeldByFewestFirst) {
  MemoryClusterOptions options = RepairedCluster(kThree, {}, 1);
  options.settings.repair_bytes_per_second = 1 * kMiB;
  RepairingCluster nodes(options);
  std::vector<ObjectRef> by_one;
  for (uint64_t i = 0; i < 20; ++i) {
    const std::string content = TestContent(512 * kKiB, i);
    const ObjectRef ref = nodes.cluster.PutAt("b", content);
    if (i % 4 == 3) {
      by_one.push_back(ref);
    } else {
      nodes.cluster.PutAt("c", content);
    }
  }
  while (nodes.CountAt("a") < by_one.size()) {
    nodes.StepOf("a");
    nodes.cluster.clock().Advance(50'000);
  }
  for (const ObjectRef& ref : by_one) EXPECT_EQ(nodes.cluster.Holders(ref.id), "ab");
}

TEST(Repairer, PullsNoFasterThanTheClusterSays) {
  MemoryClusterOptions options = RepairedCluster(kThree);
  options.settings.repair_bytes_per_second = 1 * kMiB;
  RepairingCluster nodes(options);
  for (uint64_t i = 0; i < 40; ++i) {
    const std::string content = TestContent(512 * kKiB, i);
    nodes.cluster.PutAt("b", content);
    nodes.cluster.PutAt("c", content);
  }
  uint64_t seconds = 0;
  for (; nodes.CountAt("a") < 40; ++seconds) {
    ASSERT_LT(seconds, 60u);
    // However often it is called.
    for (int i = 0; i < 20; ++i) {
      nodes.StepOf("a");
      nodes.cluster.clock().Advance(50'000);
    }
    EXPECT_LE(nodes.at("a").counters().pulled_bytes, (seconds + 2) * kMiB) << seconds;
  }
  EXPECT_GE(seconds, 18u);
  EXPECT_LE(seconds, 22u);
  const RepairProgress progress = nodes.at("a").progress();
  EXPECT_GT(progress.pulled_bytes_per_second, 900 * kKiB);
  EXPECT_LT(progress.pulled_bytes_per_second, 1'200 * kKiB);
}

TEST(Repairer, SaysHowMuchIsLeft) {
  MemoryClusterOptions options = RepairedCluster(kThree);
  options.settings.repair_bytes_per_second = 1 * kMiB;
  RepairingCluster nodes(options);
  for (uint64_t i = 0; i < 20; ++i) {
    const std::string content = TestContent(512 * kKiB, i);
    nodes.cluster.PutAt("b", content);
    nodes.cluster.PutAt("c", content);
  }
  for (int i = 0; i < 5; ++i) nodes.StepOf("a");
  RepairProgress progress = nodes.at("a").progress();
  EXPECT_EQ(progress.owned_partitions, 16u);
  EXPECT_GT(progress.short_partitions, 5u);
  EXPECT_EQ(progress.objects_to_pull + nodes.CountAt("a"), 20u);
  EXPECT_EQ(progress.bytes_to_pull, progress.objects_to_pull * 512 * kKiB);
  EXPECT_FALSE(progress.complete);
  EXPECT_EQ(progress.waiting_s, 1);
  nodes.cluster.clock().Advance(5'000'000);
  nodes.StepOf("a");
  EXPECT_EQ(nodes.at("a").progress().waiting_s, 5);
  ASSERT_TRUE(nodes.RunUntilQuiet());
  progress = nodes.at("a").progress();
  EXPECT_EQ(progress.short_partitions, 0u);
  EXPECT_EQ(progress.bytes_to_pull, 0u);
  EXPECT_EQ(progress.waiting_s, 0);
}

TEST(Repairer, WhatHasNoSourceStaysMissingAndIsTriedAgain) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const ObjectRef ref = nodes.cluster.PutAt("b", "content", {5});
  auto& b = nodes.cluster.node("b");
  b.faults.cut_after_bytes = 0;
  nodes.RunFor(60);
  EXPECT_EQ(nodes.cluster.Holders(ref.id), "b");
  EXPECT_EQ(nodes.at("a").progress().missing_objects, 1u);
  EXPECT_GE(nodes.at("a").progress().waiting_s, 55);
  EXPECT_LE(b.log.opens, 40) << "each time after longer";
  b.faults.cut_after_bytes = UINT64_MAX;
  ASSERT_TRUE(nodes.RunUntilQuiet());
  EXPECT_EQ(nodes.cluster.Holders(ref.id), "abc");
}

TEST(Repairer, ForgetsWhatWasDeletedEverywhere) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const ObjectRef ref = nodes.cluster.PutAt("b", "content", {5});
  nodes.cluster.node("b").faults.before_open = [&] { nodes.Wipe("b"); };
  nodes.StepOf("a");
  nodes.StepOf("a");
  ASSERT_EQ(nodes.at("a").progress().objects_to_pull, 1u);
  nodes.RunFor(10);
  EXPECT_EQ(nodes.at("a").progress().objects_to_pull, 0u);
  EXPECT_EQ(nodes.cluster.Holders(ref.id), "");
}

TEST(Repairer, WaitsWhereItsDiskIsFull) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const ObjectRef ref = nodes.cluster.PutAt("b", "content", {5});
  nodes.cluster.PutAt("c", "content", {5});
  nodes.cluster.node("a").store->full = true;
  nodes.RunFor(100);
  EXPECT_LE(nodes.at("a").counters().failed_pulls, 4u);
  EXPECT_EQ(nodes.at("a").progress().missing_objects, 0u) << "copies of it were found";
  nodes.cluster.node("a").store->full = false;
  ASSERT_TRUE(nodes.RunUntilQuiet());
  EXPECT_EQ(nodes.cluster.Holders(ref.id), "abc");
}

TEST(Repairer, GoesOnWithTheOtherOwnersWhereOneDoesNotAnswer) {
  RepairingCluster nodes(RepairedCluster(kThree));
  const auto refs = nodes.PutMany(100);
  nodes.Wipe("a");
  nodes.cluster.node("b").faults.down = true;
  ASSERT_TRUE(nodes.RunUntil([&] { return nodes.CountAt("a") == refs.size(); }, 60));
  nodes.RunFor(20);
  const RepairProgress progress = nodes.at("a").progress();
  EXPECT_EQ(progress.unanswered_partitions, 16u);
  EXPECT_FALSE(progress.complete);
  nodes.cluster.node("b").faults.down = false;
  ASSERT_TRUE(nodes.RunUntilQuiet());
}

TEST(Repairer, HoldsNoMoreThanItsListHoweverMuchIsMissing) {
  constexpr size_t kList = 16;
  RepairingCluster nodes(RepairedCluster(kThree, {}, 1), kList);
  const auto refs = nodes.PutMany(3'000);
  nodes.Wipe("a");
  ASSERT_TRUE(nodes.RunUntilQuiet());
  EXPECT_EQ(nodes.CountSettled(refs), refs.size());
}

TEST(Repairer, NodesRepairAtTheSameTimeWithManyThreads) {
  ThreadPool pool("repair", 4);
  MemoryClusterOptions options = RepairedCluster(kFive);
  options.executor = &pool;
  RepairingCluster nodes(options);
  const auto refs = nodes.PutMany(200);
  nodes.Wipe("a");
  nodes.cluster.SetMap({{"b", NodeState::kDraining}});
  for (int round = 0; round < 1'000 && nodes.CountSettled(refs) < refs.size(); ++round) {
    std::vector<std::thread> threads;
    for (const std::string& node : kFive) {
      threads.emplace_back([&nodes, &node] {
        for (int i = 0; i < 4; ++i) nodes.StepOf(node);
        (void)nodes.at(node).progress();
      });
    }
    for (std::thread& thread : threads) thread.join();
    nodes.cluster.clock().Advance(1'000'000);
  }
  EXPECT_EQ(nodes.CountSettled(refs), refs.size());
  EXPECT_EQ(nodes.CountAt("b"), 0u);
}

TEST(Repairer, DoesNothingWhereTheMapDoesNotHaveItsNode) {
  class Elsewhere : public ClusterView {
   public:
    explicit Elsewhere(MemoryCluster& cluster) : cluster_(cluster) {}
    const std::string& node_id() const override { return id_; }
    std::shared_ptr<const Placement> placement() override { return cluster_.placement(); }

   private:
    MemoryCluster& cluster_;
    const std::string id_ = "removed";
  };
  RepairingCluster nodes(RepairedCluster(kThree));
  nodes.cluster.PutAt("a", "content");
  Elsewhere view(nodes.cluster);
  InlineExecutor executor;
  Repairer repairer(*nodes.cluster.node("a").store, *nodes.cluster.node("a").outlook, view,
                    {.executor = &executor,
                     .pull_budget = std::make_shared<ByteBudget>(kMiB),
                     .pool = BufferPool::Create(kMiB),
                     .clock = &nodes.cluster.clock()});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(*repairer.Step(), 1'000'000);
  EXPECT_EQ(repairer.counters().offers, 0u);
  EXPECT_EQ(nodes.CountAt("a"), 1u);
}

TEST(Repairer, EndsWhenItIsNotWantedAnyMore) {
  RepairingCluster nodes(RepairedCluster(kThree));
  CallContext context{.cancel = std::make_shared<CancelToken>()};
  context.cancel->Cancel();
  EXPECT_EQ(GetReason(nodes.at("a").Step(context).status()), Reason::kCancelled);
}

// A node that was cut off has the same placement as before: nothing but this tells of it.
TEST(Repairer, LooksAgainAtOnceWhenItIsToldTo) {
  RepairingCluster nodes(RepairedCluster({"a", "b", "c"}));
  ASSERT_TRUE(nodes.RunUntilQuiet());
  const ObjectRef ref = nodes.cluster.PutAt("b", "written while a and c were away");
  nodes.RunFor(kRepairRoundEvery_s / 2);
  ASSERT_EQ(nodes.cluster.Holders(ref.id), "b");
  ASSERT_TRUE(nodes.IsQuiet());
  nodes.at("a").LookAgain();
  EXPECT_FALSE(nodes.IsQuiet());
  EXPECT_TRUE(nodes.RunUntil([&] { return nodes.cluster.Holders(ref.id) == "ab"; }, 5));
  // While it settles, too: what it has found already may be old.
  nodes.cluster.PutAt("b", "another");
  nodes.at("c").LookAgain();
  nodes.StepOf("c");
  nodes.at("c").LookAgain();
  EXPECT_TRUE(nodes.RunUntil([&] { return nodes.at("c").progress().complete; }, 20));
  EXPECT_EQ(nodes.CountAt("c"), nodes.CountAt("b"));
}

// One object is garbage by a round that the catalog has in force, or has not.
class OneIsGarbage : public CopyRefusals {
 public:
  absl::StatusOr<std::optional<CopyRefusal>> RefusalOf(Domain, const ObjectId& id,
                                                       Revision touched_rev) override {
    if (id != garbage || touched_rev >= round.fence) return std::nullopt;
    return CopyRefusal{round};
  }
  absl::Status Confirm(const CopyRefusal&) override {
    return in_force ? absl::OkStatus() : MakeError(Reason::kVersionConflict, "another round");
  }

  ObjectId garbage;
  RoundName round{.id = "round", .line_id = "line", .snapshot = {20}, .fence = {10}};
  bool in_force = true;
};

TEST(Repairer, AnOwnerThatMissedARoundGivesUpWhatTheOthersHaveCollected) {
  for (bool in_force : {true, false}) {
    RepairingCluster nodes(RepairedCluster({"a", "b", "c"}));
    OneIsGarbage lists;
    lists.in_force = in_force;
    const ObjectRef garbage = nodes.cluster.PutAt("a", "garbage", {5});
    const ObjectRef touched = nodes.cluster.PutAt("a", "touched since", {10});
    lists.garbage = garbage.id;
    for (const char* id : {"b", "c"}) nodes.cluster.node(id).refusals.lists = &lists;
    OneIsGarbage own;  // a has no list: it refuses nothing, and reads the catalog
    own.in_force = in_force;
    nodes.cluster.node("a").refusals.lists = &own;
    nodes.RunFor(20);
    EXPECT_EQ(nodes.cluster.Holders(garbage.id), in_force ? "" : "a");
    EXPECT_EQ(nodes.cluster.Holders(touched.id), "abc");
    EXPECT_EQ(nodes.at("a").counters().collected_objects, in_force ? 1u : 0u);
  }
}

}  // namespace
}  // namespace tilekv
