#include "kvstore/base/call_context.h"

#include <algorithm>

#include "kvstore/base/clock.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::Status CallContext::Check() const {
  if (cancelled()) return MakeError(Reason::kCancelled, "the call was cancelled");
  if (deadline_ns != std::numeric_limits<int64_t>::max() &&
      Clock::System()->MonotonicNanos() >= deadline_ns) {
    return MakeError(Reason::kDeadlineExceeded, "the call's deadline passed");
  }
  return absl::OkStatus();
}

CallContext CallContext::WithTimeout(int64_t timeout_ms) const {
  CallContext context = *this;
  context.deadline_ns =
      std::min(deadline_ns, Clock::System()->MonotonicNanos() + timeout_ms * 1'000'000);
  return context;
}

}  // namespace tilekv
