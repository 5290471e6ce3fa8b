#include "server/stream_budget.h"

#include <memory>
#include <utility>

#include "kvstore/base/clock.h"

namespace tilekv {

uint64_t StreamBudget::Reserve(uint64_t bytes, Executor* executor,
                               std::function<void(Reservation)> granted) {
  int64_t asked_nanos = Clock::System()->MonotonicNanos();
  return budget_.AcquireAsync(
      bytes, [this, asked_nanos, executor, granted = std::move(granted)](Reservation reservation) {
        waited_((Clock::System()->MonotonicNanos() - asked_nanos) / 1'000);
        auto held = std::make_shared<Reservation>(std::move(reservation));
        executor->Post([granted, held] { granted(std::move(*held)); });
      });
}

std::optional<Reservation> StreamBudget::ReserveAtOnce(uint64_t bytes) {
  std::optional<Reservation> reservation = budget_.TryAcquire(bytes);
  if (reservation.has_value()) waited_(0);
  return reservation;
}

}  // namespace tilekv
