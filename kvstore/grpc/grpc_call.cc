#include "kvstore/grpc/grpc_call.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/retry_hint.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/status_wire.h"

namespace tilekv {
namespace {

// How soon a cancelled context or a stall is noticed.
constexpr std::chrono::milliseconds kLookEvery(50);
// A node that asks for more is not believed.
constexpr int64_t kMostRetryAfter_ms = 10'000;

}  // namespace

void SetDeadline(const CallContext& context, grpc::ClientContext& call) {
  if (context.deadline_ns == std::numeric_limits<int64_t>::max()) return;
  int64_t left_nanos = context.deadline_ns - Clock::System()->MonotonicNanos();
  call.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(left_nanos));
}

absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& call,
                      const CallContext& context, const std::string& node) {
  if (status.error_code() == grpc::StatusCode::CANCELLED && status.error_details().empty() &&
      !context.cancelled()) {
    return MakeError(
        Reason::kNodeUnavailable,
        fmt::format("node {} broke the call off: it is being stopped, or gave the call up", node));
  }
  absl::Status error =
      StatusFromWire(status.error_code(), status.error_message(), status.error_details(), node);
  if (error.ok()) return error;
  const auto& trailers = call.GetServerTrailingMetadata();
  auto found = trailers.find(kRetryAfterTrailer);
  int64_t after_ms = 0;
  if (found == trailers.end() ||
      !absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &after_ms)) {
    return error;
  }
  return WithRetryAfter(error, std::min(after_ms, kMostRetryAfter_ms));
}

absl::Status Stalled(std::string text) {
  return WithoutRetry(MakeError(Reason::kNodeUnavailable, std::move(text)));
}

absl::Status NoAnswer(const std::string& name, int64_t timeout_ms, const std::string& node) {
  return Stalled(fmt::format(
      "node {} did not answer {} within {} ms: it hangs, or the network to it is broken", node,
      name, timeout_ms));
}

std::vector<Bytes> PiecesOf(const grpc::ByteBuffer& message, std::vector<grpc::Slice>& slices) {
  slices.clear();
  std::vector<Bytes> pieces;
  if (!message.Dump(&slices).ok()) return pieces;
  pieces.reserve(slices.size());
  for (const grpc::Slice& slice : slices) pieces.emplace_back(slice.begin(), slice.size());
  return pieces;
}

void CallWatch::Progress() {
  MutexLock lock(mutex_);
  progress_nanos_ = Clock::System()->MonotonicNanos();
}

void CallWatch::SetStallTimeout(int64_t timeout_ms) {
  MutexLock lock(mutex_);
  stall_timeout_ms_ = timeout_ms;
  progress_nanos_ = Clock::System()->MonotonicNanos();
}

void CallWatch::Done(const grpc::Status& status) {
  MutexLock lock(mutex_);
  status_ = status;
  done_ = true;
  changed_.SignalAll();  // under the lock: the waiter may destroy the watch as soon as it has it
}

void CallWatch::CheckOn(const CallContext& context) {
  if (cancelled_) return;
  int64_t still_nanos = Clock::System()->MonotonicNanos() - progress_nanos_;
  stalled_ = stall_timeout_ms_ > 0 && still_nanos > stall_timeout_ms_ * 1'000'000;
  if (stalled_ || context.cancelled()) CancelLocked();
}

void CallWatch::CancelLocked() {
  if (!std::exchange(cancelled_, true)) call_->TryCancel();
}

grpc::Status CallWatch::Wait(const CallContext& context) {
  MutexLock lock(mutex_);
  while (!done_) {
    if (!changed_.WaitFor(mutex_, kLookEvery)) CheckOn(context);
  }
  return status_;
}

bool CallWatch::WaitUntil(const CallContext& context, const std::function<bool()>& ready) {
  MutexLock lock(mutex_);
  // Steps that never have to wait are cancelled too.
  if (context.cancelled()) CancelLocked();
  awaited_ = &ready;
  while (!done_ && !ready()) {
    if (!changed_.WaitFor(mutex_, kLookEvery)) CheckOn(context);
  }
  awaited_ = nullptr;
  return ready();
}

void CallWatch::Update(const std::function<void()>& change) {
  MutexLock lock(mutex_);
  change();
  progress_nanos_ = Clock::System()->MonotonicNanos();
  if (awaited_ != nullptr && (*awaited_)()) changed_.Signal();
}

bool CallWatch::stalled() {
  MutexLock lock(mutex_);
  return stalled_;
}

}  // namespace tilekv
