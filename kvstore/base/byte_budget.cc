#include "kvstore/base/byte_budget.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "kvstore/base/status.h"

namespace tilekv {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  budget_ = std::exchange(other.budget_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Reservation::Release() {
  if (budget_ != nullptr) std::exchange(budget_, nullptr)->GiveBack(std::exchange(bytes_, 0));
}

ByteBudget::~ByteBudget() {
  MutexLock lock(mutex_);
  TILEKV_CHECK(used_bytes_ == 0 && waiting_.empty());
}

Reservation ByteBudget::Take(uint64_t bytes) {
  used_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  Reservation reservation;
  reservation.budget_ = this;
  reservation.bytes_ = bytes;
  return reservation;
}

absl::StatusOr<Reservation> ByteBudget::Acquire(uint64_t bytes, const CallContext& context) {
  struct Slot {
    Mutex mutex;
    CondVar ready;
    std::optional<Reservation> reservation ABSL_GUARDED_BY(mutex);
  };
  auto slot = std::make_shared<Slot>();
  uint64_t ticket = AcquireAsync(bytes, [slot](Reservation reservation) {
    MutexLock lock(slot->mutex);
    slot->reservation = std::move(reservation);
    slot->ready.Signal();
  });
  while (true) {
    {
      MutexLock lock(slot->mutex);
      if (!slot->reservation.has_value())
        slot->ready.WaitFor(slot->mutex, std::chrono::milliseconds(50));
      if (slot->reservation.has_value()) return *std::move(slot->reservation);
    }
    absl::Status wanted = context.Check();
    if (!wanted.ok() && CancelAsync(ticket)) return wanted;
  }
}

std::optional<Reservation> ByteBudget::TryAcquire(uint64_t bytes) {
  MutexLock lock(mutex_);
  if (!waiting_.empty() || !Fits(bytes)) return std::nullopt;
  return Take(bytes);
}

uint64_t ByteBudget::AcquireAsync(uint64_t bytes, std::function<void(Reservation)> granted) {
  uint64_t ticket = 0;
  {
    MutexLock lock(mutex_);
    ticket = next_ticket_++;
    waiting_.push_back({ticket, bytes, std::move(granted)});
  }
  GrantWaiting();
  return ticket;
}

bool ByteBudget::CancelAsync(uint64_t ticket) {
  {
    MutexLock lock(mutex_);
    auto found = std::find_if(waiting_.begin(), waiting_.end(),
                              [&](const Waiter& waiter) { return waiter.ticket == ticket; });
    if (found == waiting_.end()) return false;
    waiting_.erase(found);
  }
  GrantWaiting();  // what stood behind it may fit now
  return true;
}

uint64_t ByteBudget::used_bytes() {
  MutexLock lock(mutex_);
  return used_bytes_;
}

uint64_t ByteBudget::peak_bytes() {
  MutexLock lock(mutex_);
  return peak_bytes_;
}

void ByteBudget::GiveBack(uint64_t bytes) {
  {
    MutexLock lock(mutex_);
    used_bytes_ -= bytes;
  }
  GrantWaiting();
}

void ByteBudget::GrantWaiting() {
  std::vector<std::pair<std::function<void(Reservation)>, Reservation>> grants;
  {
    MutexLock lock(mutex_);
    while (!waiting_.empty() && Fits(waiting_.front().bytes)) {
      grants.emplace_back(std::move(waiting_.front().granted), Take(waiting_.front().bytes));
      waiting_.pop_front();
    }
  }
  for (auto& [granted, reservation] : grants) granted(std::move(reservation));
}

}  // namespace tilekv
