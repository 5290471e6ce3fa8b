#include "server/periodic_work.h"

#include <chrono>
#include <utility>

namespace tilekv {

PeriodicWork::PeriodicWork(int64_t every_ms, std::function<void()> work)
    : every_ms_(every_ms), work_(std::move(work)), thread_([this] { Run(); }) {}

PeriodicWork::~PeriodicWork() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    stopped_.SignalAll();
  }
  thread_.join();
}

void PeriodicWork::Run() {
  while (true) {
    {
      MutexLock lock(mutex_);
      auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(every_ms_);
      while (!stopping_) {
        auto left = until - std::chrono::steady_clock::now();
        if (left <= left.zero()) break;
        stopped_.WaitFor(mutex_, left);
      }
      if (stopping_) return;
    }
    work_();
  }
}

}  // namespace tilekv
