#include "tensor_chunking/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

TEST(ParallelFor, VisitsEveryItemOnce) {
  std::vector<std::atomic<int>> seen(1000);
  ASSERT_TRUE(ParallelFor(4, seen.size(), {}, [&](size_t i) {
                ++seen[i];
                return absl::OkStatus();
              }).ok());
  for (auto& count : seen) EXPECT_EQ(count, 1);
}

TEST(ParallelFor, GivesTheFirstErrorAndStartsNothingAfterIt) {
  std::atomic<size_t> started{0};
  absl::Status status = ParallelFor(2, 100'000, {}, [&](size_t i) {
    ++started;
    return i == 10 ? MakeError(Reason::kDataLoss, "item 10") : absl::OkStatus();
  });
  EXPECT_EQ(GetReason(status), Reason::kDataLoss);
  EXPECT_LT(started, 100'000u);
}

TEST(ParallelFor, StopsWhenItsCallIsCancelled) {
  CallContext context;
  context.cancel = std::make_shared<CancelToken>();
  absl::Status status = ParallelFor(2, 100'000, context, [&](size_t i) {
    if (i == 5) context.cancel->Cancel();
    return absl::OkStatus();
  });
  EXPECT_EQ(GetReason(status), Reason::kCancelled);
}

TEST(OrderedPrefetch, DeliversInOrderWithinTheBudget) {
  ByteBudget budget(100);
  std::atomic<int> most{0}, now{0};
  OrderedPrefetch<size_t> items(
      4, 500, budget, {}, [](size_t) { return 30; },
      [&](size_t i, const CallContext&) -> absl::StatusOr<size_t> {
        int running = ++now;
        int seen = most;
        while (running > seen && !most.compare_exchange_weak(seen, running)) {
        }
        --now;
        return i;
      });
  for (size_t i = 0; i < 500; ++i) {
    auto next = items.Next();
    ASSERT_TRUE(next.ok());
    ASSERT_EQ(**next, i);
  }
  EXPECT_FALSE(items.Next()->has_value());
  EXPECT_LE(most, 3);
  EXPECT_LE(budget.peak_bytes(), 100u);
}

TEST(OrderedPrefetch, AnItemLargerThanTheBudgetGoesAlone) {
  ByteBudget budget(100);
  OrderedPrefetch<size_t> items(
      3, 10, budget, {}, [](size_t i) { return i == 4 ? 1000 : 10; },
      [](size_t i, const CallContext&) -> absl::StatusOr<size_t> { return i; });
  size_t count = 0;
  while (true) {
    auto next = items.Next();
    ASSERT_TRUE(next.ok());
    if (!next->has_value()) break;
    EXPECT_EQ(**next, count++);
  }
  EXPECT_EQ(count, 10u);
}

TEST(OrderedPrefetch, DeliversWhatCameBeforeAnErrorThenTheErrorForEver) {
  ByteBudget budget(1000);
  OrderedPrefetch<size_t> items(
      4, 100, budget, {}, [](size_t) { return 10; },
      [](size_t i, const CallContext&) -> absl::StatusOr<size_t> {
        if (i == 7) return MakeError(Reason::kDataLoss, "tile 7");
        return i;
      });
  for (size_t i = 0; i < 7; ++i) ASSERT_EQ(**items.Next(), i);
  EXPECT_EQ(GetReason(items.Next().status()), Reason::kDataLoss);
  EXPECT_EQ(GetReason(items.Next().status()), Reason::kDataLoss);
}

TEST(OrderedPrefetch, AbandonedItCancelsWhatIsUnderWay) {
  ByteBudget budget(100);
  {
    OrderedPrefetch<size_t> items(
        2, 10, budget, {}, [](size_t) { return 10; },
        [](size_t i, const CallContext& context) -> absl::StatusOr<size_t> {
          while (i > 0 && context.Check().ok()) std::this_thread::yield();
          return i;
        });
    ASSERT_EQ(**items.Next(), 0u);
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
}

TEST(OrderedPrefetch, EndsPromptlyWhenAbandonedWithAFullBudget) {
  ByteBudget budget(10);
  {
    OrderedPrefetch<size_t> items(
        3, 1000, budget, {}, [](size_t) { return 10; },
        [](size_t i, const CallContext&) -> absl::StatusOr<size_t> { return i; });
    ASSERT_TRUE(items.Next().ok());
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
}

}  // namespace
}  // namespace tilekv
