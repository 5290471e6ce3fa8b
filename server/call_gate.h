// How many calls with one request may be queued or run at a node, by number and by the bytes of
// their requests. Beyond it a call is refused at once, so that waiting calls never hold more memory
// than the node has for them.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

// Thread-safe. Outlives every pass.
class CallGate {
 public:
  CallGate(uint64_t max_calls, uint64_t max_bytes) : max_calls_(max_calls), max_bytes_(max_bytes) {}

  // Held while the call is. Movable.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept { *this = std::move(other); }
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave(bytes_);
    }

   private:
    friend class CallGate;
    Pass(CallGate* gate, uint64_t bytes) : gate_(gate), bytes_(bytes) {}
    CallGate* gate_ = nullptr;
    uint64_t bytes_ = 0;
  };

  // OVERLOADED, with the wait that is asked for. A call that finds nobody else is never refused.
  absl::StatusOr<Pass> Enter(uint64_t request_bytes);

 private:
  void Leave(uint64_t bytes);

  const uint64_t max_calls_;
  const uint64_t max_bytes_;
  Mutex mutex_;
  uint64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tilekv
