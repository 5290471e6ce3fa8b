// What travels with a call: when it must be over, and whether its caller still wants it.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"

namespace tilekv {

// Set once, seen by every copy of the context that carries it. Thread-safe.
class CancelToken {
 public:
  CancelToken() = default;
  // Also cancelled when `parent` (may be null) is: for a part of a call that can end by itself.
  explicit CancelToken(std::shared_ptr<CancelToken> parent) : parent_(std::move(parent)) {}
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const {
    return cancelled_.load(std::memory_order_acquire) ||
           (parent_ != nullptr && parent_->cancelled());
  }

 private:
  std::atomic<bool> cancelled_{false};
  const std::shared_ptr<CancelToken> parent_;
};

struct CallContext {
  // On Clock::System()'s monotonic time; max means none.
  int64_t deadline_ns = std::numeric_limits<int64_t>::max();
  std::shared_ptr<CancelToken> cancel;  // may be null

  bool cancelled() const { return cancel != nullptr && cancel->cancelled(); }
  // OK, CANCELLED or DEADLINE_EXCEEDED. Long work asks between steps.
  absl::Status Check() const;
  // The same context with a deadline at most `timeout_ms` from now.
  CallContext WithTimeout(int64_t timeout_ms) const;
};

}  // namespace tilekv
