#include "server/periodic_work.h"

#include <chrono>
#include <utility>

namespace tilekv {

PacedWork::PacedWork(int64_t first_ms, std::function<int64_t()> work)
    : first_ms_(first_ms), work_(std::move(work)), thread_([this] { Run(); }) {}

PacedWork::~PacedWork() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    stopped_.SignalAll();
  }
  thread_.join();
}

void PacedWork::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  stopped_.SignalAll();
}

void PacedWork::Run() {
  int64_t wait_ms = first_ms_;
  while (true) {
    {
      MutexLock lock(mutex_);
      auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
      while (!stopping_ && !woken_) {
        auto left = until - std::chrono::steady_clock::now();
        if (left <= left.zero()) break;
        stopped_.WaitFor(mutex_, left);
      }
      if (stopping_) return;
      woken_ = false;
    }
    wait_ms = work_();
  }
}

PeriodicWork::PeriodicWork(int64_t every_ms, std::function<void()> work)
    : paced_(every_ms, [every_ms, work = std::move(work)] {
        work();
        return every_ms;
      }) {}

}  // namespace tilekv
