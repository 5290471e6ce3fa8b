#include "tensor_chunking/parallel.h"

#include <algorithm>
#include <atomic>

namespace tilekv {

absl::Status ParallelFor(int threads, size_t count, const CallContext& context,
                         const std::function<absl::Status(size_t)>& fn) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  Mutex mutex;
  absl::Status first;
  auto work = [&] {
    while (!failed.load(std::memory_order_relaxed)) {
      size_t index = next.fetch_add(1);
      if (index >= count) return;
      absl::Status status = context.Check();
      if (status.ok()) status = fn(index);
      if (status.ok()) continue;
      MutexLock lock(mutex);
      if (first.ok()) first = status;
      failed = true;
    }
  };
  std::vector<std::thread> others;
  size_t extra = std::min<size_t>(std::max(threads, 1), count);
  for (size_t i = 1; i < extra; ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  return first;
}

}  // namespace tilekv
