#include "server/stream_slots.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/retry_hint.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int64_t kNanosPerMilli = 1'000'000;

}  // namespace

absl::Status StreamSlots::Refusal(const char* why) const {
  return WithRetryAfter(
      MakeError(Reason::kOverloaded,
                fmt::format("this node serves {} transfers at once, as many as its memory allows, "
                            "and {}; try again later, or give the node more with --memory",
                            options_.slots, why)),
      kOverloadedRetry_s * 1'000);
}

void StreamSlots::Hold(uint64_t ticket, std::function<void()> end) {
  held_.emplace(ticket, Held{std::move(end)});
}

uint64_t StreamSlots::NewTicket() {
  MutexLock lock(mutex_);
  return next_ticket_++;
}

void StreamSlots::Enter(uint64_t ticket, Kind kind, std::function<void()> end,
                        std::function<void(absl::Status)> granted) {
  absl::Status answer;
  {
    MutexLock lock(mutex_);
    const uint64_t most =
        kind == Kind::kPut ? options_.max_waiting_puts : options_.max_waiting_reads;
    if (held_.size() < options_.slots) {
      Hold(ticket, std::move(end));
    } else if (WaitingOf(kind) < most) {
      ++WaitingOf(kind);
      queue_.push_back(
          {ticket, kind, options_.clock->MonotonicNanos(), std::move(end), std::move(granted)});
      return;
    } else {
      answer = Refusal("as many as may wait are waiting");
    }
  }
  granted(answer);
}

bool StreamSlots::Cancel(uint64_t ticket) {
  MutexLock lock(mutex_);
  auto waiting = std::find_if(queue_.begin(), queue_.end(),
                              [ticket](const Waiting& w) { return w.ticket == ticket; });
  if (waiting == queue_.end()) return false;
  --WaitingOf(waiting->kind);
  queue_.erase(waiting);
  return true;
}

void StreamSlots::Leave(uint64_t ticket) {
  std::function<void(absl::Status)> next;
  decltype(held_)::node_type left;  // goes outside of the lock
  {
    MutexLock lock(mutex_);
    left = held_.extract(ticket);
    if (left.empty() || queue_.empty()) return;
    Waiting first = std::move(queue_.front());
    queue_.pop_front();
    --WaitingOf(first.kind);
    Hold(first.ticket, std::move(first.end));
    next = std::move(first.granted);
  }
  next(absl::OkStatus());
}

void StreamSlots::WaitsForClient(uint64_t ticket, bool waits) {
  MutexLock lock(mutex_);
  auto held = held_.find(ticket);
  if (held == held_.end()) return;
  held->second.still_since_nanos.reset();
  if (waits) held->second.still_since_nanos = options_.clock->MonotonicNanos();
}

void StreamSlots::Tick() {
  std::vector<std::function<void()>> ended;
  std::vector<std::function<void(absl::Status)>> refused;
  {
    MutexLock lock(mutex_);
    const int64_t now_nanos = options_.clock->MonotonicNanos();
    for (auto& [ticket, held] : held_) {
      bool still = held.still_since_nanos.has_value() &&
                   now_nanos - *held.still_since_nanos >= options_.stalled_ms * kNanosPerMilli;
      if (still && held.end != nullptr && ended.size() < queue_.size()) {
        ended.push_back(std::exchange(held.end, nullptr));
      }
    }
    while (!queue_.empty() &&
           now_nanos - queue_.front().since_nanos >= options_.queue_ms * kNanosPerMilli) {
      --WaitingOf(queue_.front().kind);
      refused.push_back(std::move(queue_.front().granted));
      queue_.pop_front();
    }
  }
  // Outside of the lock: a call that ends gives its place back.
  for (auto& end : ended) end();
  for (auto& granted : refused) granted(Refusal("none of them ended in time"));
}

uint64_t StreamSlots::held() {
  MutexLock lock(mutex_);
  return held_.size();
}

uint64_t StreamSlots::waiting() {
  MutexLock lock(mutex_);
  return queue_.size();
}

}  // namespace tilekv
