#include "server/call_gate.h"

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/retry_hint.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

// What a request costs beside its bytes: the call, its reactor, its place in a queue.
constexpr uint64_t kBytesPerCall = 16 * kKiB;

}  // namespace

absl::StatusOr<CallGate::Pass> CallGate::Enter(uint64_t request_bytes) {
  const uint64_t bytes = request_bytes + kBytesPerCall;
  MutexLock lock(mutex_);
  if (calls_ > 0 && (calls_ >= max_calls_ || bytes_ + bytes > max_bytes_)) {
    return WithRetryAfter(
        MakeError(Reason::kOverloaded,
                  fmt::format("{} calls with {} of requests wait at this node already; try again "
                              "later, or give the node more with --memory",
                              calls_, FormatSizeShort(bytes_))),
        kOverloadedRetry_s * 1'000);
  }
  ++calls_;
  bytes_ += bytes;
  return Pass(this, bytes);
}

void CallGate::Leave(uint64_t bytes) {
  MutexLock lock(mutex_);
  --calls_;
  bytes_ -= bytes;
}

}  // namespace tilekv
