// A budget of bytes in flight: whoever holds memory for work holds a reservation of it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

class ByteBudget;

// Bytes held from a budget, given back on destruction. Movable.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Release(); }
  uint64_t bytes() const { return bytes_; }
  void Release();

 private:
  friend class ByteBudget;
  ByteBudget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

// First come, first served. A request larger than the whole budget is granted when nothing else is
// held, and then goes alone: so nothing is ever refused for its size and the peak is max(total,
// largest item). Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t total_bytes) : total_bytes_(total_bytes) {}
  ~ByteBudget();

  // Blocks until the bytes are there; CANCELLED or DEADLINE_EXCEEDED as the context says.
  absl::StatusOr<Reservation> Acquire(uint64_t bytes, const CallContext& context = {});
  // At once or not at all (also not when others wait).
  std::optional<Reservation> TryAcquire(uint64_t bytes);
  // Calls `granted` once, at once in the caller or later in the thread that gave bytes back; it
  // must not block. The returned ticket cancels: true means that `granted` will not be called.
  uint64_t AcquireAsync(uint64_t bytes, std::function<void(Reservation)> granted);
  bool CancelAsync(uint64_t ticket);

  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t used_bytes();
  uint64_t peak_bytes();

 private:
  friend class Reservation;
  struct Waiter {
    uint64_t ticket;
    uint64_t bytes;
    std::function<void(Reservation)> granted;
  };
  bool Fits(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return used_bytes_ == 0 || (bytes <= total_bytes_ && used_bytes_ <= total_bytes_ - bytes);
  }
  Reservation Take(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(uint64_t bytes);
  // Grants what now fits, in order, outside the lock.
  void GrantWaiting();

  const uint64_t total_bytes_;
  Mutex mutex_;
  uint64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  std::deque<Waiter> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
