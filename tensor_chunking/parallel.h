// Work spread over threads with the first error kept, and work spread over threads whose results
// come in order.
#pragma once

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
// from then on the memory is the consumer's. One consumer.
template <typename T>
class OrderedPrefetch {
 public:
  OrderedPrefetch(int threads, size_t count, ByteBudget& budget, CallContext context,
                  std::function<uint64_t(size_t)> cost,
                  std::function<absl::StatusOr<T>(size_t)> produce)
      : count_(count),
        budget_(budget),
        context_(std::move(context)),
        cost_(std::move(cost)),
        produce_(std::move(produce)) {
    if (context_.cancel == nullptr) context_.cancel = std::make_shared<CancelToken>();
    stop_ = std::make_shared<CancelToken>();
    for (int i = 0; i < threads && static_cast<size_t>(i) < count; ++i) {
      threads_.emplace_back([this] { Work(); });
    }
  }

  ~OrderedPrefetch() {
    stop_->Cancel();
    {
      MutexLock lock(mutex_);
      stopped_ = true;
    }
    changed_.SignalAll();
    {
      // What is reserved for finished items goes back, so that a worker that waits for the budget
      // sees the end.
      MutexLock lock(mutex_);
      ready_.clear();
    }
    for (std::thread& thread : threads_) thread.join();
  }

  // The next item; none at the end. After an error every further call gives it again.
  absl::StatusOr<std::optional<T>> Next() {
    MutexLock lock(mutex_);
    if (delivered_ == count_) return std::optional<T>();
    while (true) {
      auto found = ready_.find(delivered_);
      if (found != ready_.end()) {
        Item item = std::move(found->second);
        if (!item.value.ok()) return KeepError(std::move(item));
        ready_.erase(found);
        ++delivered_;
        return std::optional<T>(*std::move(item.value));
      }
      changed_.Wait(mutex_);
    }
  }

 private:
  struct Item {
    absl::StatusOr<T> value;
    Reservation reservation;
  };

  absl::Status KeepError(Item item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::Status status = item.value.status();
    ready_.erase(delivered_);
    ready_.emplace(delivered_, Item{status, Reservation()});
    return status;
  }

  void Work() {
    while (true) {
      size_t index = 0;
      absl::StatusOr<Reservation> reservation = Reservation();
      Reservation held;
      {
        // One thread at a time takes an index and its reservation: so they are granted in order.
        MutexLock dispatch(dispatch_);
        if (next_ == count_ || stop_->cancelled()) return;
        index = next_++;
        reservation = Reserve(cost_(index));
      }
      if (reservation.ok()) held = *std::move(reservation);
      Item item{reservation.ok() ? produce_(index) : absl::StatusOr<T>(reservation.status()),
                std::move(held)};
      bool failed = !item.value.ok();
      MutexLock lock(mutex_);
      if (stopped_) return;
      ready_.emplace(index, std::move(item));
      changed_.SignalAll();
      if (failed) stop_->Cancel();  // later items do not start
    }
  }

  absl::StatusOr<Reservation> Reserve(uint64_t bytes) {
    while (true) {
      // Both the caller's cancellation and our own end must wake it.
      absl::StatusOr<Reservation> reservation = budget_.Acquire(bytes, context_.WithTimeout(50));
      if (reservation.ok()) return reservation;
      TILEKV_RETURN_IF_ERROR(context_.Check());
      if (stop_->cancelled()) return reservation.status();
    }
  }

  const size_t count_;
  ByteBudget& budget_;
  CallContext context_;
  const std::function<uint64_t(size_t)> cost_;
  const std::function<absl::StatusOr<T>(size_t)> produce_;
  std::shared_ptr<CancelToken> stop_;
  Mutex dispatch_;
  size_t next_ ABSL_GUARDED_BY(dispatch_) = 0;
  Mutex mutex_;
  CondVar changed_;
  std::map<size_t, Item> ready_ ABSL_GUARDED_BY(mutex_);
  size_t delivered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tilekv
