#include "client/cli/perf.h"

#include "client/cli/perf_rivals.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tilekv {
namespace {

// A hundred times `rate` bytes a second.
PerfFigure At(double rate) { return {static_cast<uint64_t>(rate * 100), 100}; }

TEST(Perf, TheSlowestNeedIsTheLimitWhereMostOfItIsReached) {
  PerfVerdict verdict = JudgePerf(At(80), {{"hashing", 1000}, {"the disk", 100}}, "its own work");
  EXPECT_EQ(verdict.limit, "the disk");
  EXPECT_DOUBLE_EQ(verdict.share, 0.8);
}

TEST(Perf, EqualNeedsOneAfterTheOtherHalveTheRate) {
  EXPECT_EQ(JudgePerf(At(50), {{"hashing", 110}, {"the disk", 100}}, "its own work").limit,
            "the disk and hashing, one after the other");
}

TEST(Perf, WhatIsFarBelowItsNeedsIsLimitedByTheRest) {
  EXPECT_EQ(JudgePerf(At(10), {{"hashing", 110}, {"the disk", 100}}, "its own work").limit,
            "its own work");
  EXPECT_EQ(JudgePerf(At(10), {{"hashing", 0}}, "what was not measured").limit,
            "what was not measured");
}

TEST(Perf, WhatIsFasterThanTheDiskIsNotLimitedByIt) {
  PerfVerdict verdict = JudgePerf(At(90), {{"hashing", 110}, {"the disk", 40}}, "its own work");
  EXPECT_EQ(verdict.limit, "hashing");
  EXPECT_EQ(verdict.passed, "the disk");
  EXPECT_NEAR(verdict.share, 0.82, 0.01);
  verdict = JudgePerf(At(90), {{"the disk", 40}}, "its own work");
  EXPECT_EQ(verdict.limit, "its own work");
  EXPECT_EQ(verdict.share, 0);
}

TEST(Perf, NoMoreIsStoredThanWasSaid) {
  auto store = OpenMemoryStore();
  ASSERT_TRUE(store.ok()) << store.status();
  auto report = MeasureStore(**store, {.bytes = 70'000, .seconds = 60, .threads = 2});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->put.bytes, 60'000U);
  EXPECT_LE(report->put.bytes, 70'000U);
}

TEST(Perf, OnlyAddressesOfThisMachineAreTakenForIt) {
  EXPECT_TRUE(IsThisMachine("127.0.0.1:7070"));
  EXPECT_TRUE(IsThisMachine("127.8.9.1:7070"));
  EXPECT_TRUE(IsThisMachine("localhost:7070"));
  EXPECT_TRUE(IsThisMachine("[::1]:7070"));
  EXPECT_FALSE(IsThisMachine("203.0.113.5:7070"));  // of nobody: RFC 5737
  EXPECT_FALSE(IsThisMachine("[2001:db8::5]:7070"));
  EXPECT_FALSE(IsThisMachine("no such host:7070"));
}

TEST(Perf, TheLoopbackMovesAllBytesAndEndsInTimeWhereTheyAreTooMany) {
  absl::StatusOr<PerfFigure> all = MeasureLoopback({.bytes = 3 << 20, .seconds = 600});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->bytes, uint64_t{3} << 20);
  absl::StatusOr<PerfFigure> some = MeasureLoopback({.bytes = UINT64_MAX, .seconds = 0});
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_GT(some->bytes, 0U);
}

}  // namespace
}  // namespace tilekv
