#include "kvstore/cluster/concurrently.h"

#include <memory>
#include <utility>

#include "kvstore/base/mutex.h"

namespace tilekv {
namespace {

class Share {
 public:
  explicit Share(std::vector<std::function<void()>> work) : work_(std::move(work)) {}

  // Does what is left, until nothing is.
  void Help() {
    while (true) {
      size_t mine = 0;
      {
        MutexLock lock(mutex_);
        if (next_ == work_.size()) return;
        mine = next_++;
      }
      work_[mine]();
      MutexLock lock(mutex_);
      if (++ended_ == work_.size()) all_ended_.SignalAll();
    }
  }

  void Wait() {
    MutexLock lock(mutex_);
    while (ended_ < work_.size()) all_ended_.Wait(mutex_);
  }

 private:
  std::vector<std::function<void()>> work_;  // each is run by whoever has drawn its number
  Mutex mutex_;
  CondVar all_ended_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

void RunConcurrently(Executor& executor, std::vector<std::function<void()>> work) {
  if (work.empty()) return;
  const size_t helpers = work.size() - 1;
  auto share = std::make_shared<Share>(std::move(work));
  for (size_t i = 0; i < helpers; ++i) {
    executor.Post([share] { share->Help(); });
  }
  share->Help();
  share->Wait();
}

}  // namespace tilekv
