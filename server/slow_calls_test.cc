#include "server/slow_calls.h"

#include <gtest/gtest.h>

#include <vector>

namespace tilekv {
namespace {

constexpr int64_t kMilli = 1'000'000;

class SlowCallsTest : public testing::Test {
 protected:
  SlowCalls Make(int64_t slow_call_ms) {
    return SlowCalls(
        slow_call_ms, [this](const EndedCall&, uint64_t unlogged) { lines_.push_back(unlogged); },
        &clock_);
  }
  ManualClock clock_;
  std::vector<uint64_t> lines_;  // with the calls that each of them stands for beside its own
};

TEST_F(SlowCallsTest, WhatACallWaitsForItsClientDoesNotMakeItSlow) {
  SlowCalls calls = Make(100);
  EXPECT_FALSE(calls.IsSlow(100 * kMilli, 0, 0));
  EXPECT_TRUE(calls.IsSlow(101 * kMilli, 0, 0));
  EXPECT_FALSE(calls.IsSlow(500 * kMilli, 450 * kMilli, 10 * kMilli));
  EXPECT_TRUE(calls.IsSlow(500 * kMilli, 350 * kMilli, 10 * kMilli));
}

TEST_F(SlowCallsTest, ACallInWhichNothingMovedForLongIsSlowWhoeverStoodStill) {
  constexpr int64_t kStill = kSlowClient_s * 1'000 * kMilli;
  EXPECT_TRUE(Make(100).IsSlow(2 * kStill, 2 * kStill, kStill));
  EXPECT_FALSE(Make(100).IsSlow(2 * kStill, 2 * kStill, kStill - 1));
  // Who wants to hear of long calls alone does not hear of these.
  EXPECT_FALSE(Make(4 * kSlowClient_s * 1'000).IsSlow(2 * kStill, 2 * kStill, kStill));
}

TEST_F(SlowCallsTest, NoneIsSlowWhereThatIsTurnedOff) {
  EXPECT_FALSE(Make(0).IsSlow(INT64_MAX, 0, INT64_MAX));
}

TEST_F(SlowCallsTest, LinesAreSoManyAMinuteAndTheNextOneCountsWhatWasLeftOut) {
  SlowCalls calls = Make(100);
  for (int i = 0; i < kSlowCallLinesPerMinute + 5; ++i) calls.Add({});
  ASSERT_EQ(lines_.size(), static_cast<size_t>(kSlowCallLinesPerMinute));
  EXPECT_EQ(lines_.back(), 0U);
  clock_.Advance(59'999'999);
  calls.Add({});
  EXPECT_EQ(lines_.size(), static_cast<size_t>(kSlowCallLinesPerMinute));
  clock_.Advance(1);
  calls.Add({});
  calls.Add({});
  ASSERT_EQ(lines_.size(), static_cast<size_t>(kSlowCallLinesPerMinute) + 2);
  EXPECT_EQ(lines_[lines_.size() - 2], 6U);
  EXPECT_EQ(lines_.back(), 0U);
}

TEST(EndedCallTest, WhatItDidNotWaitForWasWork) {
  EndedCall call{.total_nanos = 10, .queue_nanos = 1, .budget_nanos = 2, .client_nanos = 3};
  EXPECT_EQ(call.work_nanos(), 4);
  call.client_nanos = 30;  // beside work on what had come already
  EXPECT_EQ(call.work_nanos(), 0);
}

}  // namespace
}  // namespace tilekv
