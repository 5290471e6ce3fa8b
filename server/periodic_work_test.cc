#include "server/periodic_work.h"

#include <gtest/gtest.h>

#include <optional>

namespace tilekv {
namespace {

TEST(PeriodicWork, RunsAgainAndAgainUntilItIsDestroyed) {
  Mutex mutex;
  CondVar ran;
  int runs = 0;
  std::optional<PeriodicWork> work;
  work.emplace(1, [&] {
    MutexLock lock(mutex);
    ++runs;
    ran.SignalAll();
  });
  {
    MutexLock lock(mutex);
    while (runs < 3) ran.Wait(mutex);
  }
  work.reset();
  int runs_then = runs;
  work.emplace(1'000'000'000, [&] { ++runs; });
  work.reset();
  EXPECT_EQ(runs, runs_then) << "the end does not wait for the interval, nor run once more";
}

}  // namespace
}  // namespace tilekv
