// The memory of one class of streams: reserved before bytes are asked for or read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kvstore/base/byte_budget.h"
#include "kvstore/base/executor.h"

namespace tilekv {

// Thread-safe. Outlives every reservation.
class StreamBudget {
 public:
  // `waited` is told how long each grant took.
  StreamBudget(std::string name, uint64_t total_bytes, std::function<void(int64_t micros)> waited)
      : name_(std::move(name)), budget_(total_bytes), waited_(std::move(waited)) {}

  const std::string& name() const { return name_; }
  ByteBudget& budget() { return budget_; }
  // As ByteBudget::AcquireAsync, but `granted` runs on the executor: a grant may come in a thread
  // that holds another stream's lock.
  uint64_t Reserve(uint64_t bytes, Executor* executor, std::function<void(Reservation)> granted);
  bool Cancel(uint64_t ticket) { return budget_.CancelAsync(ticket); }
  std::optional<Reservation> TryReserve(uint64_t bytes) { return budget_.TryAcquire(bytes); }
  // The same for a reservation that would otherwise be waited for: it counts as a wait of no time.
  std::optional<Reservation> ReserveAtOnce(uint64_t bytes);

 private:
  const std::string name_;
  ByteBudget budget_;
  const std::function<void(int64_t micros)> waited_;
};

}  // namespace tilekv
