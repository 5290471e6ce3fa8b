#include "server/slow_calls.h"

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "server/log.h"

namespace tilekv {
namespace {

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int64_t kMinuteNanos = 60'000 * kNanosPerMilli;

std::string Millis(int64_t nanos) { return fmt::format("{}", nanos / kNanosPerMilli); }

}  // namespace

int64_t EndedCall::work_nanos() const {
  return std::max<int64_t>(0, total_nanos - queue_nanos - budget_nanos - client_nanos);
}

bool SlowCalls::IsSlow(int64_t total_nanos, int64_t client_nanos,
                       int64_t longest_client_nanos) const {
  if (slow_call_ms_ <= 0) return false;
  const int64_t still_ms = std::max(slow_call_ms_, kSlowClient_s * 1'000);
  return total_nanos - client_nanos > slow_call_ms_ * kNanosPerMilli ||
         longest_client_nanos >= still_ms * kNanosPerMilli;
}

void SlowCalls::Add(const EndedCall& call) {
  uint64_t unlogged = 0;
  {
    MutexLock lock(mutex_);
    const int64_t now_nanos = clock_->MonotonicNanos();
    if (lines_ == 0 || now_nanos - minute_began_nanos_ >= kMinuteNanos) {
      minute_began_nanos_ = now_nanos;
      lines_ = 0;
    }
    if (lines_ == kSlowCallLinesPerMinute) {
      ++unlogged_;
      return;
    }
    ++lines_;
    unlogged = std::exchange(unlogged_, 0);
  }
  write_(call, unlogged);
}

void LogSlowCall(const EndedCall& call, uint64_t unlogged) {
  LogEvent(LogLevel::kWarning, "slow_call",
           {{"call", call.name},
            {"ms", Millis(call.total_nanos)},
            {"queue_ms", Millis(call.queue_nanos)},
            {"budget_ms", Millis(call.budget_nanos)},
            {"client_ms", Millis(call.client_nanos)},
            {"work_ms", Millis(call.work_nanos())},
            {"bytes", fmt::format("{}", call.bytes)},
            {"peer", call.peer},
            {"reason", call.status.ok() ? "OK" : std::string(ReasonName(GetReason(call.status)))},
            {"unlogged", fmt::format("{}", unlogged)}});
}

}  // namespace tilekv
