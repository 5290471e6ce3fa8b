// What a node does not own, and when it goes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvstore/cluster/repair_test_util.h"
#include "kvstore/cluster/repairer.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_store_conformance.h"

namespace tilekv {
namespace {

const std::vector<std::string> kFour = {"a", "b", "c", "d"};
const std::vector<std::string> kSix = {"a", "b", "c", "d", "e", "f"};

bool OwnedByBCD(const std::vector<std::string>& order) { return order.back() == "a"; }

// One object that b, c and d own and hold, and a too.
struct OneTooMany {
  OneTooMany()
      : nodes(RepairedCluster(kFour)), content(nodes.cluster.ContentFor(1'000, OwnedByBCD)) {
    for (const std::string& name : kFour) ref = nodes.cluster.PutAt(name, content, {5});
  }
  // Node a alone repairs, for so long.
  void RunA(int64_t seconds) {
    const int64_t until_nanos = nodes.cluster.clock().MonotonicNanos() + seconds * 1'000'000'000;
    while (nodes.cluster.clock().MonotonicNanos() < until_nanos) {
      nodes.StepOf("a");
      nodes.cluster.clock().Advance(1'000'000);
    }
  }
  std::string holders() { return nodes.cluster.Holders(ref.id); }
  MemoryNode& node(std::string_view id) { return nodes.cluster.node(id); }

  RepairingCluster nodes;
  const std::string content;
  ObjectRef ref;
};

TEST(RepairerDrop, DropsWhatAllOwnersConfirm) {
  OneTooMany one;
  one.RunA(5);
  EXPECT_EQ(one.holders(), "bcd");
  EXPECT_EQ(one.nodes.at("a").counters().dropped_objects, 1u);
  EXPECT_EQ(one.nodes.at("a").counters().dropped_bytes, 1'000u);
}

TEST(RepairerDrop, TheOwnersGetTheRevisionOfWhatIsDropped) {
  OneTooMany one;
  ASSERT_TRUE(one.node("a").store->Link(kDefaultDomain, {&one.ref, 1}, {9}).ok());
  one.RunA(5);
  EXPECT_EQ(one.nodes.cluster.Holders(one.ref.id, {9}), "bcd");
  EXPECT_EQ(one.holders(), "bcd");
}

TEST(RepairerDrop, KeepsItWhereOneOwnerDoesNotConfirm) {
  const std::vector<std::function<void(OneTooMany&)>> reasons = {
      [](OneTooMany& one) { one.node("c").faults.down = true; },
      [](OneTooMany& one) { one.node("c").faults.no_address = true; },
      [](OneTooMany& one) { one.nodes.Wipe("c"); },
      [](OneTooMany& one) {
        ASSERT_TRUE(one.node("c").store->MarkSuspect(kDefaultDomain, one.ref.id).ok());
      },
      // Damaged, and not looked at for long.
      [](OneTooMany& one) {
        one.node("c").store->FlipBit(kDefaultDomain, one.ref.id, 500);
        one.nodes.cluster.clock().Advance((kScrubPeriod_s + 1) * 1'000'000);
      },
      // Between the offer and the question.
      [](OneTooMany& one) {
        one.node("d").faults.before_confirm = [&one] { one.nodes.Wipe("d"); };
      },
      // Two nodes that answer for one disk.
      [](OneTooMany& one) { one.node("c").faults.store_uuid = one.node("d").store->store_uuid(); },
      [](OneTooMany& one) { one.node("c").faults.store_uuid = one.node("a").store->store_uuid(); },
  };
  for (size_t i = 0; i < reasons.size(); ++i) {
    OneTooMany one;
    reasons[i](one);
    one.RunA(60);
    EXPECT_EQ(one.holders().front(), 'a') << "reason " << i;
    EXPECT_EQ(one.nodes.at("a").counters().dropped_objects, 0u) << "reason " << i;
    EXPECT_EQ(one.nodes.at("a").progress().foreign_partitions, 1u) << "reason " << i;
  }
}

TEST(RepairerDrop, KeepsItWhereFewerThanTheReplicationAreIn) {
  RepairingCluster nodes(RepairedCluster(kFour));
  nodes.cluster.SetMap({{"c", NodeState::kDraining}, {"d", NodeState::kDraining}});
  const std::string content =
      nodes.cluster.ContentFor(1'000, [](const auto& order) { return order.back() == "c"; });
  ObjectRef ref;
  for (const std::string& name : kFour) ref = nodes.cluster.PutAt(name, content);
  nodes.RunFor(120);
  EXPECT_EQ(nodes.cluster.Holders(ref.id), "abcd");
  EXPECT_EQ(nodes.cluster.node("a").log.confirms, 0);
}

TEST(RepairerDrop, AnOwnerWithAnOlderMapConfirmsNothing) {
  OneTooMany one;
  // The owners stay the same.
  one.nodes.cluster.MakeMap({{"a", NodeState::kDraining}});
  for (const char* node : {"a", "b", "d"}) one.nodes.cluster.TellMap(node);
  ASSERT_EQ(one.nodes.OwnersOf(one.ref.id), "bcd");
  one.RunA(60);
  EXPECT_EQ(one.holders(), "abcd");
  one.nodes.cluster.TellMap("c");
  one.RunA(400);
  EXPECT_EQ(one.holders(), "bcd");
}

// What was asked for with the older map, too.
TEST(RepairerDrop, ANodeWithAnOlderMapDropsNothing) {
  OneTooMany one;
  one.nodes.cluster.MakeMap({{"a", NodeState::kDraining}});
  for (const char* node : {"b", "c", "d"}) one.nodes.cluster.TellMap(node);
  one.RunA(60);
  EXPECT_EQ(one.holders(), "abcd");
  one.nodes.cluster.TellMap("a");
  one.RunA(5);
  EXPECT_EQ(one.holders(), "bcd");
}

TEST(RepairerDrop, AnAnswerOfMoreThanTenSecondsAgoDoesNotCount) {
  for (int64_t late_ms : {kDropAnswerCounts_ms - 1, kDropAnswerCounts_ms}) {
    OneTooMany one;
    // The node that asks stands still while the answer is on its way.
    one.node("b").faults.after_confirm = [&one, late_ms] {
      one.nodes.cluster.clock().Advance(late_ms * 1'000);
    };
    one.RunA(5);
    EXPECT_EQ(one.holders(), late_ms < kDropAnswerCounts_ms ? "bcd" : "abcd") << late_ms;
  }
}

TEST(RepairerDrop, ARevisionThatGrewWhileItAskedStopsIt) {
  OneTooMany one;
  bool once = false;
  one.node("d").faults.after_confirm = [&] {
    if (std::exchange(once, true)) return;
    // A commit counts on the copy here, after the owners have answered.
    ASSERT_TRUE(one.node("a").store->Link(kDefaultDomain, {&one.ref, 1}, {9}).ok());
  };
  one.nodes.StepOf("a");
  one.nodes.StepOf("a");
  ASSERT_TRUE(once);
  EXPECT_EQ(one.holders(), "abcd");
  EXPECT_EQ(one.nodes.cluster.Holders(one.ref.id, {9}), "a");
  one.RunA(30);
  EXPECT_EQ(one.nodes.cluster.Holders(one.ref.id, {9}), "bcd");
}

TEST(RepairerDrop, ANewerMapThatComesWhileItAskedStopsIt) {
  OneTooMany one;
  one.node("d").faults.after_confirm = [&] {
    one.nodes.cluster.MakeMap({{"d", NodeState::kDraining}});
    one.nodes.cluster.TellMap("a");
  };
  one.nodes.StepOf("a");
  one.nodes.StepOf("a");
  EXPECT_GE(one.node("d").log.confirms, 1);
  EXPECT_EQ(one.holders(), "abcd");
}

TEST(RepairerDrop, WhatIsInQuarantineIsKeptUntilTheOwnersHaveIt) {
  OneTooMany one;
  one.node("a").store->FlipBit(kDefaultDomain, one.ref.id, 500);
  ASSERT_FALSE(*one.node("a").store->Verify(kDefaultDomain, one.ref.id));
  one.nodes.Wipe("c");
  one.RunA(60);
  EXPECT_TRUE((*one.node("a").store->Stat(kDefaultDomain, one.ref.id)).has_value());
  one.nodes.cluster.PutAt("c", one.content, {5});
  one.RunA(400);
  EXPECT_FALSE((*one.node("a").store->Stat(kDefaultDomain, one.ref.id)).has_value());
}

TEST(RepairerDrop, OwnersPullWhatTheyAreOffered) {
  RepairingCluster nodes(RepairedCluster(kFour));
  const std::string content = nodes.cluster.ContentFor(1'000, OwnedByBCD);
  const ObjectRef ref = nodes.cluster.PutAt("a", content, {7});
  ASSERT_TRUE(nodes.RunUntilQuiet());
  EXPECT_EQ(nodes.cluster.Holders(ref.id, {7}), "bcd");
}

// At every moment as many copies as before, or R of them.
void RunAndCount(RepairingCluster& nodes, const std::vector<ObjectRef>& refs) {
  std::vector<size_t> before(refs.size());
  for (int i = 0; i < 5'000 && !nodes.IsQuiet(); ++i) {
    nodes.Step();
    for (size_t object = 0; object < refs.size(); ++object) {
      const size_t copies = nodes.cluster.Holders(refs[object].id).size();
      ASSERT_GE(copies, std::min<size_t>(before[object], 3)) << object;
      before[object] = copies;
    }
  }
  EXPECT_TRUE(nodes.IsQuiet());
  EXPECT_EQ(nodes.CountSettled(refs), refs.size());
}

TEST(RepairerDrop, ANodeThatJoinsGetsItsShareAndTheOthersLetItGo) {
  RepairingCluster nodes(RepairedCluster({"a", "b", "c", "d"}, {{"d", NodeState::kDraining}}));
  const auto refs = nodes.PutMany(200);
  ASSERT_EQ(nodes.CountAt("d"), 0u);
  nodes.cluster.SetMap({});
  RunAndCount(nodes, refs);
  EXPECT_GT(nodes.CountAt("d"), refs.size() / 2);
  EXPECT_EQ(nodes.CountAt("a") + nodes.CountAt("b") + nodes.CountAt("c") + nodes.CountAt("d"),
            3 * refs.size());
}

TEST(RepairerDrop, ANodeThatIsDrainedIsEmptyInTheEnd) {
  RepairingCluster nodes(RepairedCluster(kFour));
  const auto refs = nodes.PutMany(200);
  ASSERT_GT(nodes.CountAt("b"), 0u);
  nodes.cluster.SetMap({{"b", NodeState::kDraining}});
  RunAndCount(nodes, refs);
  EXPECT_EQ(nodes.CountAt("b"), 0u);
}

TEST(RepairerDrop, AllOwnersMayBeDrainedAtOnce) {
  std::map<std::string, NodeState> later;
  for (const char* node : {"d", "e", "f"}) later[node] = NodeState::kDraining;
  RepairingCluster nodes(RepairedCluster(kSix, later));
  const auto refs = nodes.PutMany(200);
  std::map<std::string, NodeState> sooner;
  for (const char* node : {"a", "b", "c"}) sooner[node] = NodeState::kDraining;
  nodes.cluster.SetMap(sooner);
  RunAndCount(nodes, refs);
  EXPECT_EQ(nodes.CountAt("a") + nodes.CountAt("b") + nodes.CountAt("c"), 0u);
}

TEST(RepairerDrop, GivesAwayMoreThanTheOwnersNoteAtOnce) {
  RepairingCluster nodes(RepairedCluster(kFour), /*list_objects=*/8);
  const auto refs = nodes.PutMany(300);
  nodes.cluster.SetMap({{"b", NodeState::kDraining}});
  ASSERT_TRUE(nodes.RunUntilQuiet());
  EXPECT_EQ(nodes.CountSettled(refs), refs.size());
}

}  // namespace
}  // namespace tilekv
