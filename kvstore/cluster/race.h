// Attempts at one thing, of which the first that succeeds will do.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

// For one thread. May be destroyed while attempts run: each ends by itself, holds what it needs,
// and what it gives is dropped. Those that nobody has begun are not made.
template <typename T>
class Race {
 public:
  using Attempt = std::function<absl::StatusOr<T>()>;
  struct Ended {
    size_t number;  // of the attempt
    absl::StatusOr<T> result;
  };

  explicit Race(Executor& executor) : executor_(executor) {}
  ~Race() {
    std::deque<std::pair<size_t, Attempt>> dropped;
    MutexLock lock(state_->mutex);
    dropped.swap(state_->waiting);
  }
  Race(const Race&) = delete;
  Race& operator=(const Race&) = delete;

  void Start(size_t number, Attempt attempt) {
    {
      MutexLock lock(state_->mutex);
      state_->waiting.emplace_back(number, std::move(attempt));
    }
    executor_.Post([state = state_] { state->RunOne(Taken::kOldest); });
  }

  // The next that ends, or none within `wait_ms`, or until then.
  std::optional<Ended> WaitFor(int64_t wait_ms) {
    return WaitUntil(std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms));
  }

  std::optional<Ended> WaitUntil(std::chrono::steady_clock::time_point until) {
    MutexLock lock(state_->mutex);
    while (state_->ended.empty()) {
      const auto left = until - std::chrono::steady_clock::now();
      if (left <= left.zero()) return std::nullopt;
      state_->changed.WaitFor(state_->mutex, left);
    }
    Ended first = std::move(state_->ended.front());
    state_->ended.pop_front();
    return first;
  }

  // The next that ends; there is one that was started and did not come yet. What a busy executor
  // does not get to is run here, the newest first: it is the one that others were too slow for.
  Ended Wait() {
    while (true) {
      auto ended = WaitFor(kPatience_ms);
      if (ended.has_value()) return *std::move(ended);
      state_->RunOne(Taken::kNewest);
    }
  }

 private:
  static constexpr int64_t kPatience_ms = 50;  // with an executor that is busy

  enum class Taken { kOldest, kNewest };

  struct State {
    Mutex mutex;
    CondVar changed;
    std::deque<std::pair<size_t, Attempt>> waiting ABSL_GUARDED_BY(mutex);
    std::deque<Ended> ended ABSL_GUARDED_BY(mutex);

    // Nothing where all have been begun.
    void RunOne(Taken which) {
      std::pair<size_t, Attempt> mine;
      {
        MutexLock lock(mutex);
        if (waiting.empty()) return;
        const auto taken = which == Taken::kOldest ? waiting.begin() : std::prev(waiting.end());
        mine = std::move(*taken);
        waiting.erase(taken);
      }
      absl::StatusOr<T> result = mine.second();
      MutexLock lock(mutex);
      ended.push_back({mine.first, std::move(result)});
      changed.SignalAll();
    }
  };

  Executor& executor_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace tilekv
