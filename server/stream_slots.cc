#include "server/stream_slots.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/retry_hint.h"
#include "kvstore/base/sizes.h"
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

absl::Status StreamSlots::TooSlow() const {
  return WithRetryAfter(
      MakeError(Reason::kOverloaded,
                fmt::format("less than {} of this transfer moved within {} s while others waited "
                            "for its place; send it again when its bytes are there",
                            FormatSizeShort(options_.least_bytes), options_.stalled_ms / 1'000)),
      kOverloadedRetry_s * 1'000);
}

void StreamSlots::Hold(uint64_t ticket, std::string peer, End end) {
  Held& held = held_[ticket];
  held.peer = std::move(peer);
  held.end = std::move(end);
}

uint64_t StreamSlots::NewTicket() {
  MutexLock lock(mutex_);
  return next_ticket_++;
}

bool StreamSlots::MayWait(const Waiting& waiting) {
  const Kind kind = waiting.caller.kind;
  return WaitingOf(kind) <
         (kind == Kind::kPut ? options_.max_waiting_puts : options_.max_waiting_reads);
}

void StreamSlots::Enqueue(Waiting waiting) {
  ++WaitingOf(waiting.caller.kind);
  auto before = queue_.end();
  if (!waiting.slow) {
    before = std::find_if(queue_.begin(), queue_.end(), [](const Waiting& w) { return w.slow; });
  }
  queue_.insert(before, std::move(waiting));
}

std::list<StreamSlots::Waiting>::iterator StreamSlots::LastSlow(Kind kind) {
  for (auto at = queue_.end(); at != queue_.begin();) {
    --at;
    if (!at->slow) break;
    if (at->caller.kind == kind) return at;
  }
  return queue_.end();
}

StreamSlots::Waiting StreamSlots::Remove(std::list<Waiting>::iterator waiting) {
  --WaitingOf(waiting->caller.kind);
  Waiting removed = std::move(*waiting);
  queue_.erase(waiting);
  return removed;
}

void StreamSlots::Enter(uint64_t ticket, Caller caller, End end,
                        std::function<void(absl::Status)> granted) {
  std::function<void(absl::Status)> refused;
  {
    MutexLock lock(mutex_);
    const int64_t now_nanos = options_.clock->MonotonicNanos();
    if (held_.size() < options_.slots) {
      Hold(ticket, std::move(caller.peer), std::move(end));
    } else {
      auto slow = slow_until_nanos_.find(caller.peer);
      Waiting waiting{ticket, std::move(caller), false, now_nanos, std::move(end), {}};
      waiting.slow = slow != slow_until_nanos_.end() && slow->second > now_nanos;
      waiting.granted = std::exchange(granted, nullptr);
      if (!MayWait(waiting)) {
        auto last = waiting.slow ? queue_.end() : LastSlow(waiting.caller.kind);
        if (last == queue_.end()) {
          refused = std::move(waiting.granted);
        } else {
          refused = Remove(last).granted;
        }
      }
      if (waiting.granted != nullptr) Enqueue(std::move(waiting));
    }
  }
  if (granted != nullptr) granted(absl::OkStatus());
  if (refused != nullptr) refused(Refusal("as many as may wait are waiting"));
}

bool StreamSlots::Cancel(uint64_t ticket) {
  MutexLock lock(mutex_);
  auto waiting = std::find_if(queue_.begin(), queue_.end(),
                              [ticket](const Waiting& w) { return w.ticket == ticket; });
  if (waiting == queue_.end()) return false;
  Remove(waiting);
  return true;
}

void StreamSlots::Leave(uint64_t ticket) {
  std::function<void(absl::Status)> next;
  decltype(held_)::node_type left;  // goes outside of the lock
  {
    MutexLock lock(mutex_);
    left = held_.extract(ticket);
    if (left.empty() || queue_.empty()) return;
    Waiting first = Remove(queue_.begin());
    Hold(first.ticket, std::move(first.caller.peer), std::move(first.end));
    next = std::move(first.granted);
  }
  next(absl::OkStatus());
}

void StreamSlots::WaitsForClient(uint64_t ticket, bool waits, uint64_t moved_bytes) {
  MutexLock lock(mutex_);
  auto found = held_.find(ticket);
  if (found == held_.end()) return;
  Held& held = found->second;
  const int64_t now_nanos = options_.clock->MonotonicNanos();
  held.waited_nanos = held.WaitedNanos(now_nanos);
  held.waits_since_nanos.reset();
  if (waits) held.waits_since_nanos = now_nanos;
  held.moved_bytes += moved_bytes;
  if (held.moved_bytes < options_.least_bytes) return;
  held.moved_bytes = 0;
  held.waited_nanos = 0;
}

std::vector<StreamSlots::End> StreamSlots::TakeTooSlow(int64_t now_nanos) {
  std::vector<std::pair<int64_t, uint64_t>> slow;  // the longest wait first
  size_t wanted = queue_.size();
  for (auto& [ticket, held] : held_) {
    const int64_t waited_nanos = held.WaitedNanos(now_nanos);
    if (held.end == nullptr) {
      if (wanted > 0) --wanted;  // a place that is about to be given back
    } else if (waited_nanos >= options_.stalled_ms * kNanosPerMilli) {
      slow.emplace_back(-waited_nanos, ticket);
    }
  }
  std::sort(slow.begin(), slow.end());
  if (slow.size() > wanted) slow.resize(wanted);
  std::vector<End> ends;
  for (const auto& [order, ticket] : slow) {
    Held& held = held_.at(ticket);
    slow_until_nanos_[held.peer] = now_nanos + options_.slow_client_ms * kNanosPerMilli;
    ends.push_back(std::exchange(held.end, nullptr));
  }
  return ends;
}

void StreamSlots::Tick() {
  std::vector<End> too_slow;
  std::vector<std::function<void(absl::Status)>> refused;
  {
    MutexLock lock(mutex_);
    const int64_t now_nanos = options_.clock->MonotonicNanos();
    too_slow = TakeTooSlow(now_nanos);
    for (auto at = queue_.begin(); at != queue_.end();) {
      auto waiting = at++;
      if (now_nanos - waiting->since_nanos < options_.queue_ms * kNanosPerMilli) continue;
      refused.push_back(Remove(waiting).granted);
    }
    std::erase_if(slow_until_nanos_,
                  [now_nanos](const auto& client) { return client.second <= now_nanos; });
  }
  // Outside of the lock: a call that ends gives its place back.
  for (auto& end : too_slow) end(TooSlow());
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
