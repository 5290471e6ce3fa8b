#include "kvstore/catalog/etcd/etcd_rpc.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "kvstore/base/clock.h"
#include "kvstore/base/random.h"

namespace tilekv {
namespace {

constexpr int64_t kFirstPause_ms = 20;
constexpr int64_t kGreatestPause_ms = 500;
constexpr int64_t kNanosPerMilli = 1'000'000;

}  // namespace

bool PauseBeforeRetry(int tries, int64_t deadline_ns) {
  int64_t most_ms = std::min(kFirstPause_ms << std::min(tries, 5), kGreatestPause_ms);
  int64_t pause_ns =
      (most_ms / 2 + static_cast<int64_t>(Random::System()->Below(most_ms / 2 + 1))) *
      kNanosPerMilli;
  if (Clock::System()->MonotonicNanos() + pause_ns >= deadline_ns) return false;
  std::this_thread::sleep_for(std::chrono::nanoseconds(pause_ns));
  return true;
}

RepeatedReply Repeat(const std::function<Reply()>& attempt, int64_t deadline_ns) {
  RepeatedReply reply;
  for (int tries = 1;; ++tries) {
    reply.last = attempt();
    if (reply.last.final() || !PauseBeforeRetry(tries, deadline_ns)) return reply;
    reply.any_unknown |= reply.last.fate == Fate::kUnknown;
  }
}

}  // namespace tilekv
