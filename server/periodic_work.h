// Work that a process does by itself from time to time, in a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "kvstore/base/mutex.h"

namespace tilekv {

class PacedWork {
 public:
  // `work` runs first after `first_ms`, then after as many milliseconds as it returned.
  PacedWork(int64_t first_ms, std::function<int64_t()> work);
  // Waits for a run in progress.
  ~PacedWork();
  // `work` runs as soon as it can; once more where it is running. From any thread.
  void Wake();

 private:
  void Run();

  const int64_t first_ms_;
  const std::function<int64_t()> work_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

class PeriodicWork {
 public:
  // `work` runs first after one interval, then one interval after it has ended.
  PeriodicWork(int64_t every_ms, std::function<void()> work);
  // Its destructor waits for a run in progress.

 private:
  PacedWork paced_;
};

}  // namespace tilekv
