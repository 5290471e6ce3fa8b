#include "kvstore/node/scrubber.h"

#include <map>

#include "gtest/gtest.h"
#include "kvstore/base/status.h"
#include "kvstore/node/node_test_util.h"

namespace tilekv {
namespace {

constexpr int64_t kDueAfter_s = kScrubPeriod_s / 2;

class ScrubberTest : public NodeTest {
 protected:
  ObjectRef Put(const std::string& content) { return PutObject(Begin().session_rev(), 0, content); }
  // Steps, waiting as told, for so long. Returns how much the store was read in between.
  void RunFor(Scrubber& scrubber, int64_t seconds) {
    int64_t until = clock_.WallMicros() + seconds * kSecondMicros;
    while (clock_.WallMicros() < until) {
      auto wait = scrubber.Step();
      ASSERT_TRUE(wait.ok()) << wait.status();
      clock_.Advance(*wait);
    }
  }
  Scrubber NewScrubber() { return {objects_, kDefaultDomain, clock_}; }
  int64_t Age(const ObjectRef& ref) {
    return clock_.WallMicros() - (*objects_.Stat(kDefaultDomain, ref.id))->verified_at_micros;
  }
};

TEST_F(ScrubberTest, EveryObjectIsReadWithinThePeriodAgainAndAgain) {
  std::vector<ObjectRef> refs;
  for (int i = 0; i < 200; ++i) {
    refs.push_back(Put(std::string(1'000 + i, 'x')));
    clock_.Advance(3'600 * kSecondMicros);
  }
  Scrubber scrubber = NewScrubber();
  for (int day = 0; day < 40; ++day) {
    RunFor(scrubber, 24 * 3'600);
    for (const ObjectRef& ref : refs) {
      ASSERT_LE(Age(ref), kScrubPeriod_s * kSecondMicros) << "day " << day;
    }
  }
  EXPECT_GE(scrubber.stats().objects, 200u * 4);
  EXPECT_LE(scrubber.stats().objects, 200u * 7) << "not much more often than needed";
}

TEST_F(ScrubberTest, ARestartGoesOnWhereTheWorkStood) {
  for (int i = 0; i < 100; ++i) Put(std::to_string(i));
  clock_.Advance(kDueAfter_s * kSecondMicros);
  for (int i = 0; i < 100; ++i) {
    Scrubber scrubber = NewScrubber();
    ASSERT_TRUE(scrubber.Step().ok());
    EXPECT_EQ(scrubber.stats().objects, 1u) << "after " << i << " restarts";
  }
  Scrubber scrubber = NewScrubber();
  ASSERT_TRUE(scrubber.Step().ok());
  EXPECT_EQ(scrubber.stats().objects, 0u) << "all are read";
}

TEST_F(ScrubberTest, DamageIsQuarantinedCountedAndNotReadAgain) {
  ObjectRef good = Put(std::string(100'000, 'g'));
  ObjectRef bad = Put(std::string(100'000, 'b'));
  objects_.FlipBit(kDefaultDomain, bad.id, 70'000);
  clock_.Advance(kDueAfter_s * kSecondMicros);
  Scrubber scrubber = NewScrubber();
  RunFor(scrubber, 3'600);
  EXPECT_EQ((*objects_.Stat(kDefaultDomain, bad.id))->state, RowState::kQuarantined);
  EXPECT_EQ((*objects_.Stat(kDefaultDomain, good.id))->state, RowState::kGood);
  EXPECT_EQ(scrubber.stats().damaged, 1u);
  RunFor(scrubber, 2 * 3'600);
  EXPECT_EQ(scrubber.stats().objects, 2u);
}

TEST_F(ScrubberTest, WhatIsSoundAgainIsTakenBackFromQuarantineWithinThePeriod) {
  ObjectRef ref = Put(std::string(100'000, 'x'));
  objects_.FlipBit(kDefaultDomain, ref.id, 70'000);
  ASSERT_FALSE(*objects_.Verify(kDefaultDomain, ref.id));
  objects_.FlipBit(kDefaultDomain, ref.id, 70'000);
  Scrubber scrubber = NewScrubber();
  RunFor(scrubber, kScrubPeriod_s);
  EXPECT_EQ((*objects_.Stat(kDefaultDomain, ref.id))->state, RowState::kGood);
}

// Tables by number, of which some are damaged, cannot be read, or go.
class FakeTables : public TableFiles {
 public:
  std::optional<TableFile> After(uint64_t number) override {
    auto next = files.upper_bound(number);
    if (next == files.end()) return std::nullopt;
    return TableFile{.number = next->first, .bytes = kMiB, .path = ""};
  }
  absl::Status Check(const TableFile& file) override {
    ++checks[file.number];
    return files[file.number];
  }
  std::map<uint64_t, absl::Status> files;
  std::map<uint64_t, int> checks;
};

TEST_F(ScrubberTest, TablesOfAllDatabasesAreReadAfterAStartAndEachHalfPeriod) {
  FakeTables index, catalog;
  for (uint64_t number : {3, 5, 8}) index.files[number] = absl::OkStatus();
  index.files[5] = MakeError(Reason::kDataLoss, "a block is bad");
  index.files[8] = MakeError(Reason::kNotFound, "gone");
  catalog.files[2] = absl::OkStatus();
  std::vector<std::string> notices;
  Scrubber scrubber(objects_, kDefaultDomain, clock_, kScrubPeriod_s,
                    {.of = {&index, nullptr, &catalog},
                     .notice = [&](const std::string& text) { notices.push_back(text); }});
  RunFor(scrubber, 3'600);
  EXPECT_EQ(index.checks, (std::map<uint64_t, int>{{3, 1}, {5, 1}, {8, 1}}));
  EXPECT_EQ(catalog.checks, (std::map<uint64_t, int>{{2, 1}}));
  EXPECT_EQ(scrubber.stats().tables, 3u);
  EXPECT_EQ(scrubber.stats().damaged_tables, 1u);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("a block is bad"), std::string::npos);
  RunFor(scrubber, kScrubPeriod_s);
  EXPECT_EQ(index.checks[3], 3);
  EXPECT_EQ(catalog.checks[2], 3);
}

TEST_F(ScrubberTest, ATableThatCannotBeReadIsAnErrorAndTheOthersFollow) {
  FakeTables index;
  index.files[1] = MakeError(Reason::kInternal, "input/output error");
  index.files[2] = absl::OkStatus();
  Scrubber scrubber(objects_, kDefaultDomain, clock_, kScrubPeriod_s, {.of = {&index}});
  EXPECT_EQ(GetReason(scrubber.Step().status()), Reason::kInternal);
  EXPECT_TRUE(scrubber.Step().ok());
  EXPECT_EQ(scrubber.stats().tables, 1u);
  EXPECT_EQ(scrubber.stats().damaged_tables, 0u);
}

TEST_F(ScrubberTest, ASuspectObjectIsReadBeforeItsTime) {
  ObjectRef ref = Put("x");
  ASSERT_TRUE(objects_.MarkSuspect(kDefaultDomain, ref.id).ok());
  Scrubber scrubber = NewScrubber();
  ASSERT_TRUE(scrubber.Step().ok());
  EXPECT_EQ((*objects_.Stat(kDefaultDomain, ref.id))->state, RowState::kGood);
}

TEST_F(ScrubberTest, ReadingIsPacedByWhatIsStored) {
  Put(std::string(8 * kMiB, 'x'));
  clock_.Advance(kDueAfter_s * kSecondMicros);
  Scrubber scrubber = NewScrubber();
  auto wait = scrubber.Step();
  ASSERT_TRUE(wait.ok());
  EXPECT_GE(*wait, 8 * kSecondMicros) << "1 MiB a second where little is stored";
  EXPECT_LE(*wait, 9 * kSecondMicros);
}

TEST_F(ScrubberTest, AStopIsHeard) {
  CallContext context{.cancel = std::make_shared<CancelToken>()};
  context.cancel->Cancel();
  Scrubber scrubber = NewScrubber();
  EXPECT_EQ(GetReason(scrubber.Step(context).status()), Reason::kCancelled);
}

}  // namespace
}  // namespace tilekv
