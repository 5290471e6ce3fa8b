#include "kvstore/object/group_sync.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "kvstore/base/status.h"
#include "kvstore/object/test_file_system.h"

namespace tilekv {
namespace {

TEST(GroupSync, ServesAllWhoWaitWithOneSyncThatBeganAfterTheyCame) {
  constexpr int kWaiting = 8;
  TestFileSystem fs;
  Mutex mutex;
  CondVar changed;
  int syncs = 0;
  bool first_may_end = false;
  fs.hook = [&](const std::string&, const std::string&) {
    MutexLock lock(mutex);
    ++syncs;
    changed.SignalAll();
    while (!first_may_end) changed.Wait(mutex);
    return absl::OkStatus();
  };
  GroupSync group(&fs);
  std::atomic<int> coming{0};
  std::vector<std::thread> threads;
  auto sync = [&] {
    ++coming;
    EXPECT_TRUE(group.SyncDirectory("/tmp").ok());
  };
  threads.emplace_back(sync);
  {
    MutexLock lock(mutex);
    while (syncs == 0) changed.Wait(mutex);
  }
  for (int i = 0; i < kWaiting; ++i) threads.emplace_back(sync);
  while (coming < kWaiting + 1) std::this_thread::yield();
  {
    MutexLock lock(mutex);
    // Not one of those who came later is served by the sync that runs.
    EXPECT_EQ(syncs, 1);
    first_may_end = true;
    changed.SignalAll();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(syncs, 2);
  EXPECT_LE(syncs, 1 + kWaiting);
}

TEST(GroupSync, GivesAFailureToEveryLaterCallToo) {
  TestFileSystem fs;
  bool fail = true;
  fs.hook = [&](const std::string&, const std::string&) {
    return fail ? MakeError(Reason::kInternal, "broken") : absl::OkStatus();
  };
  GroupSync group(&fs);
  EXPECT_FALSE(group.SyncDirectory("/tmp").ok());
  fail = false;
  EXPECT_FALSE(group.SyncDirectory("/tmp").ok());
  EXPECT_TRUE(group.SyncDirectory("/").ok());
}

TEST(GroupSync, ForgetsASyncThatCouldNotBegin) {
  TestFileSystem fs;
  bool refuse = true;
  fs.hook = [&](const std::string&, const std::string&) {
    return refuse ? MakeError(Reason::kOverloaded, "too many open files") : absl::OkStatus();
  };
  GroupSync group(&fs);
  EXPECT_EQ(GetReason(group.SyncDirectory("/tmp")), Reason::kOverloaded);
  refuse = false;
  EXPECT_TRUE(group.SyncDirectory("/tmp").ok());
}

}  // namespace
}  // namespace tilekv
