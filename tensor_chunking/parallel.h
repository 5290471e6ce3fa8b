// Work spread over threads with the first error kept, and work spread over threads whose results
// come in order.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"

namespace tilekv {

// Runs fn(i) for i in [0, count) on up to `threads` threads, the caller's among them, in rising
// order of start. After the first error no further item starts; that error is returned, once all
// that had started have ended.
absl::Status ParallelFor(int threads, size_t count, const CallContext& context,
                         const std::function<absl::Status(size_t)>& fn);

// Produces items 0, 1, 2, ... on threads of its own ahead of the consumer, within a byte budget,
// and hands them over in order.
//
// `cost(i)` says what item i will hold; it is reserved before `produce(i)` starts, in order of i,
// so that an item never waits for a later one. The reservation ends when Next hands the item over:
// from then on the memory is the consumer's. What is finished and not yet asked for keeps its
// reservation, so `budget` is this prefetch's alone: somebody else could wait for it for ever. One
// consumer. The destructor cancels what is under way.
template <typename T>
class OrderedPrefetch {
 public:
  using Produce = std::function<absl::StatusOr<T>(size_t, const CallContext&)>;

  OrderedPrefetch(int threads, size_t count, ByteBudget& budget, const CallContext& context,
                  std::function<uint64_t(size_t)> cost, Produce produce)
      : count_(count),
        budget_(budget),
        context_(context),
        cost_(std::move(cost)),
        produce_(std::move(produce)) {
    context_.cancel = std::make_shared<CancelToken>(context.cancel);
    for (int i = 0; i < threads && static_cast<size_t>(i) < count; ++i) {
      threads_.emplace_back([this] { Work(); });
    }
  }

  ~OrderedPrefetch() {
    context_.cancel->Cancel();
    for (std::thread& thread : threads_) thread.join();
  }

  // The next item; none at the end. After an error every further call gives it again. Once the
  // context is cancelled or over, nothing more is started or given out, not even what is ready.
  absl::StatusOr<std::optional<T>> Next() {
    MutexLock lock(mutex_);
    if (delivered_ == count_) return std::optional<T>();
    TILEKV_RETURN_IF_ERROR(context_.Check());
    auto found = ready_.find(delivered_);
    while (found == ready_.end()) {
      changed_.Wait(mutex_);
      found = ready_.find(delivered_);
    }
    if (!found->second.value.ok()) return found->second.value.status();
    std::optional<T> value(*std::move(found->second.value));
    ready_.erase(found);
    ++delivered_;
    return value;
  }

  // How long its threads have waited for the budget so far, all together.
  int64_t budget_nanos() const { return budget_nanos_; }

 private:
  struct Item {
    absl::StatusOr<T> value;
    Reservation reservation;
  };

  void Work() {
    while (true) {
      size_t index = 0;
      absl::StatusOr<Reservation> reservation = Reservation();
      {
        // One thread at a time takes an index and its reservation: so they are granted in order.
        const int64_t asked_nanos = Clock::System()->MonotonicNanos();
        MutexLock dispatch(dispatch_);
        if (next_ == count_ || failed_) return;
        index = next_++;
        reservation = budget_.Acquire(cost_(index), context_);
        budget_nanos_ += Clock::System()->MonotonicNanos() - asked_nanos;
      }
      if (absl::Status wanted = context_.Check(); !wanted.ok()) reservation = wanted;
      absl::StatusOr<T> value =
          reservation.ok() ? produce_(index, context_) : absl::StatusOr<T>(reservation.status());
      if (!value.ok()) failed_ = true;  // later items do not start
      Item item{std::move(value), Reservation()};
      if (item.value.ok()) item.reservation = *std::move(reservation);
      MutexLock lock(mutex_);
      ready_.emplace(index, std::move(item));
      changed_.SignalAll();
    }
  }

  const size_t count_;
  ByteBudget& budget_;
  CallContext context_;  // with a token of our own, which the destructor cancels
  const std::function<uint64_t(size_t)> cost_;
  const Produce produce_;
  std::atomic<bool> failed_{false};
  std::atomic<int64_t> budget_nanos_{0};
  Mutex dispatch_;
  size_t next_ ABSL_GUARDED_BY(dispatch_) = 0;
  Mutex mutex_;
  CondVar changed_;
  std::map<size_t, Item> ready_ ABSL_GUARDED_BY(mutex_);
  size_t delivered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

}  // namespace tilekv
