// Where work runs: threads in a process, the caller itself in a test, a queue in a simulation.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kvstore/base/mutex.h"

namespace tilekv {

class Executor {
 public:
  virtual ~Executor() = default;
  virtual void Post(std::function<void()> work) = 0;
};

// Runs work at once in the caller.
class InlineExecutor : public Executor {
 public:
  void Post(std::function<void()> work) override { work(); }
};

// A fixed number of threads; what is posted runs in order of posting. The destructor runs what is
// queued, then joins.
class ThreadPool : public Executor {
 public:
  ThreadPool(const std::string& name, int threads);
  ~ThreadPool() override;
  void Post(std::function<void()> work) override;

 private:
  void Run();

  Mutex mutex_;
  CondVar ready_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tilekv
