#include "kvstore/cluster/pull_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

TouchedRef RefOfText(const std::string& text, uint64_t touched_rev = 1) {
  return {RefOf(0, AsBytes(text)), {touched_rev}};
}

std::vector<std::string> Nodes(int count) {
  std::vector<std::string> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back("node " + std::to_string(i));
  return nodes;
}

TEST(PullListTest, GivesTheFewestCopiesFirstAndThoseOfNobodyLast) {
  ManualClock clock;
  PullList list(kDefaultDomain, clock);
  const auto add = [&](const std::string& text, int copies) {
    return list.Add(RefOfText(text), Nodes(copies));
  };
  EXPECT_TRUE(list.Want(kDefaultDomain, RefOfText("offered"), "other"));
  EXPECT_TRUE(add("nobody", 0) && add("three", 3) && add("one", 1) && add("two", 2));
  EXPECT_TRUE(add("one more", 1));
  EXPECT_TRUE(list.Want(kDefaultDomain, RefOfText("one more", 5), "other")) << "two by now";
  for (const char* text : {"one", "offered", "two", "one more", "three", "nobody"}) {
    const auto next = list.Next();
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(next->wanted.ref, RefOfText(text).ref) << text;
  }
  EXPECT_FALSE(list.Next().has_value());
  EXPECT_EQ(list.figures().objects, 6u) << "until it is told what came of them";
  list.Done(RefOfText("two").ref.id);
  EXPECT_EQ(list.figures().objects, 5u);
}

TEST(PullListTest, AddsUpWhatIsKnownOfAnObject) {
  ManualClock clock;
  PullList list(kDefaultDomain, clock);
  for (const char* node : {"a", "b", "a"}) list.Want(kDefaultDomain, RefOfText("x", 3), node);
  list.Add(RefOfText("x", 2), Nodes(20));
  const auto next = list.Next();
  EXPECT_EQ(next->wanted.touched_rev, Revision{3});
  EXPECT_EQ(next->holders.size(), kMaxReplication);
  EXPECT_EQ(next->holders[1], "b");
  EXPECT_EQ(list.figures().content_bytes, 1u);
  EXPECT_FALSE(list.Want(7, RefOfText("y"), "a")) << "of another domain";
}

TEST(PullListTest, TriesAgainLaterAndEachTimeAfterLonger) {
  ManualClock clock;
  PullList list(kDefaultDomain, clock);
  list.Add(RefOfText("x"), Nodes(1));
  std::vector<int64_t> waits_s;
  for (int i = 0; i < 10; ++i) {
    auto next = list.Next();
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(next->holders.empty(), i > 0) << "whoever had it has failed";
    list.TryLater(next->wanted.ref.id);
    EXPECT_FALSE(list.HasDue() || list.HasFresh());
    EXPECT_EQ(list.figures().missing, 1u);
    const int64_t wait_nanos = *list.NextDue_nanos() - clock.MonotonicNanos();
    waits_s.push_back(wait_nanos / 1'000'000'000);
    clock.Advance(wait_nanos / 1'000 - 1);
    EXPECT_FALSE(list.Next().has_value());
    clock.Advance(1);
    EXPECT_TRUE(list.HasDue());
  }
  EXPECT_EQ(waits_s, (std::vector<int64_t>{5, 10, 20, 40, 80, 160, 300, 300, 300, 300}));
  EXPECT_EQ(list.figures().oldest_nanos, 0);
}

TEST(PullListTest, NewsOfACopyBringsItForward) {
  ManualClock clock;
  PullList list(kDefaultDomain, clock);
  list.Add(RefOfText("x"), Nodes(1));
  list.TryLater(list.Next()->wanted.ref.id);
  EXPECT_FALSE(list.HasDue());
  list.Want(kDefaultDomain, RefOfText("x"), "other");
  EXPECT_EQ(list.Next()->holders, std::vector<std::string>{"other"});
}

TEST(PullListTest, IsBoundedAndKeepsRoomBesideOffersAndBesideWhatCannotBeHad) {
  ManualClock clock;
  PullList list(kDefaultDomain, clock, 8);
  const auto text = [](int i) { return "object " + std::to_string(i); };
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(list.Want(kDefaultDomain, RefOfText(text(i)), "a"), i < 4) << i;
  }
  EXPECT_TRUE(list.Want(kDefaultDomain, RefOfText(text(0)), "b")) << "it is there";
  for (int i = 4; i < 12; ++i) EXPECT_EQ(list.Add(RefOfText(text(i)), {}), i < 8) << i;
  EXPECT_FALSE(list.HasRoom());
  while (const auto next = list.Next()) list.TryLater(next->wanted.ref.id);
  EXPECT_EQ(list.figures().missing, 2u);
  EXPECT_EQ(list.figures().objects, 2u);
  EXPECT_EQ(list.figures().content_bytes, 16u);
}

}  // namespace
}  // namespace tilekv
