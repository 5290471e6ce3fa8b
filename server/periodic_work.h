// Work that a process does by itself from time to time, in a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "kvstore/base/mutex.h"

namespace tilekv {

class PeriodicWork {
 public:
  // `work` runs first after one interval, then one interval after it has ended.
  PeriodicWork(int64_t every_ms, std::function<void()> work);
  // Waits for a run in progress.
  ~PeriodicWork();

 private:
  void Run();

  const int64_t every_ms_;
  const std::function<void()> work_;
  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tilekv
