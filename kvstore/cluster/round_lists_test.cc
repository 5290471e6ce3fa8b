#include "kvstore/cluster/round_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/round_part_format.h"

namespace tilekv {
namespace {

constexpr uint32_t kBits = 4;

class RoundListsTest : public testing::Test {
 protected:
  void Use(uint64_t prefix) {
    ObjectRef ref;
    std::string text;
    AppendBe64(text, prefix);
    std::copy(text.begin(), text.end(), ref.id.bytes.begin());
    ASSERT_TRUE(live_->Add(ref).ok());
    used_.insert(prefix);
  }
  // All parts, each of which is one.
  std::vector<RoundPart> Parts(const std::vector<bool>& wanted, uint64_t max_bytes) {
    EXPECT_TRUE(live_->Finish().ok());
    RoundLists lists(*live_, wanted, kBits, max_bytes);
    std::vector<RoundPart> parts;
    while (true) {
      auto part = lists.Next();
      EXPECT_TRUE(part.ok()) << part.status();
      if (!part.ok() || !part->has_value()) return parts;
      (*part)->round.id = (*part)->round.line_id = std::string(16, 'x');
      EXPECT_TRUE(CheckPart(**part).ok()) << CheckPart(**part);
      parts.push_back(**std::move(part));
    }
  }
  static bool Covers(const std::vector<RoundPart>& parts, uint64_t prefix) {
    size_t times = 0;
    for (const RoundPart& part : parts) {
      for (const PrefixRange& range : part.ranges) times += range.Contains(prefix);
    }
    EXPECT_LE(times, 1u);
    return times == 1;
  }

  std::optional<LiveList> live_{std::in_place, ScratchSpace{}, 0};
  std::set<uint64_t> used_;
};

TEST_F(RoundListsTest, WhatIsWantedIsCoveredOnceWithAllThatIsInUseThere) {
  SeededRandom random(5);
  for (int i = 0; i < 500; ++i) Use(random.Next());
  for (uint64_t edge : {uint64_t{0}, uint64_t{3} << 60, (uint64_t{4} << 60) - 1, ~uint64_t{0}}) {
    Use(edge);
  }
  std::vector<bool> wanted(16);
  for (int partition : {0, 1, 3, 7, 8, 9, 15}) wanted[partition] = true;
  for (uint64_t max_bytes : {64, 100, 4'096, 1 << 20}) {
    live_.emplace(ScratchSpace{}, 0);
    for (uint64_t prefix : std::set<uint64_t>(used_)) Use(prefix);
    const std::vector<RoundPart> parts = Parts(wanted, max_bytes);
    std::set<uint64_t> listed;
    for (const RoundPart& part : parts) {
      EXPECT_LE(part.ranges.size() * 16 + part.prefixes.size() * 8, max_bytes);
      for (uint64_t prefix : part.prefixes) EXPECT_TRUE(listed.insert(prefix).second);
    }
    for (uint64_t prefix : used_) {
      EXPECT_EQ(Covers(parts, prefix), wanted[prefix >> 60]);
      EXPECT_EQ(listed.contains(prefix), wanted[prefix >> 60]);
    }
    for (int i = 0; i < 1'000; ++i) {
      const uint64_t any = random.Next();
      EXPECT_EQ(Covers(parts, any), wanted[any >> 60]);
    }
  }
}

TEST_F(RoundListsTest, NothingInUseIsAListToo) {
  const std::vector<RoundPart> parts = Parts(std::vector<bool>(16, true), 64);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].ranges, (std::vector<PrefixRange>{{0, ~uint64_t{0}}}));
  EXPECT_TRUE(parts[0].prefixes.empty());
}

TEST_F(RoundListsTest, NothingWantedIsNothing) {
  Use(1);
  EXPECT_TRUE(Parts(std::vector<bool>(16), 64).empty());
}

}  // namespace
}  // namespace tilekv
