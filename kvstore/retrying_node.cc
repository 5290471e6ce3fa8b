#include "kvstore/retrying_node.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/retry_hint.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int kMaxDoublings = 16;
constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int64_t kTellAfter_ms = 1'000;
constexpr int64_t kLookEvery_ms = 20;  // how soon a wait ends whose caller has gone

// What a call that is sent twice does, and what one without an answer may have done.
enum class Effect {
  kNone,        // reads, links, sessions, objects: may be sent again, and nobody needs to know
  kRepeatable,  // a change that is made once however often it is sent
  kOnce,        // a change that is not sent again
};

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// An error of a change that may have reached the node says so.
absl::Status Explained(Effect effect, const absl::Status& status) {
  Reason reason = GetReason(status);
  bool unanswered = reason == Reason::kNodeUnavailable || reason == Reason::kDeadlineExceeded ||
                    reason == Reason::kCancelled;
  if (effect == Effect::kNone || !unanswered) return status;
  return MakeError(reason, fmt::format("{}; the change may have happened all the same: look before "
                                       "making it again",
                                       std::string(status.message())));
}

template <typename Call>
auto Retry(Effect effect, const RetryOptions& options, const CallContext& context, Call call) {
  using Result = decltype(call());
  if (absl::Status wanted = context.Check(); !wanted.ok()) return Result(wanted);
  RetryPolicy policy(options, context);
  Result result = call();
  while (true) {
    Reason reason = GetReason(StatusOf(result));
    bool again = reason == Reason::kOverloaded ||
                 (reason == Reason::kNodeUnavailable && effect != Effect::kOnce);
    if (!again || !policy.TryAgain(StatusOf(result))) {
      if (!result.ok()) result = Explained(effect, policy.Outcome(StatusOf(result)));
      return result;
    }
    result = call();
  }
}

}  // namespace

bool RetryPolicy::TryAgain(const absl::Status& failed) {
  const RetryHint hint = GetRetryHint(failed);
  if (hint.in_vain || !context_.Check().ok()) return false;
  const int64_t now_nanos = options_.clock->MonotonicNanos();
  if (waits_ == 0) failed_first_nanos_ = now_nanos;
  const int64_t left_ms =
      options_.retry_for_ms - (now_nanos - failed_first_nanos_) / kNanosPerMilli;
  if (left_ms <= 0) return false;
  if (options_.waiting != nullptr && !told_ && options_.retry_for_ms - left_ms >= kTellAfter_ms) {
    told_ = true;
    options_.waiting(failed);
  }
  const int64_t wait_ms = std::min(NextWaitMs(hint.after_ms), left_ms);
  if (context_.deadline_ns != std::numeric_limits<int64_t>::max()) {
    int64_t in_time_ms =
        (context_.deadline_ns - Clock::System()->MonotonicNanos()) / kNanosPerMilli;
    if (in_time_ms <= wait_ms) return false;
  }
  Wait(wait_ms);
  return context_.Check().ok();
}

absl::Status RetryPolicy::Outcome(const absl::Status& failed) const {
  return context_.cancelled() ? context_.Check() : failed;
}

int64_t RetryPolicy::NextWaitMs(int64_t asked_ms) {
  int64_t most_ms =
      std::min(options_.first_wait_ms << std::min(waits_, kMaxDoublings), options_.longest_wait_ms);
  ++waits_;
  int64_t grown_ms = most_ms / 2 + static_cast<int64_t>(options_.random->Below(most_ms / 2 + 1));
  if (asked_ms <= grown_ms) return grown_ms;
  // Not all of those who were refused together come back together.
  return asked_ms + static_cast<int64_t>(options_.random->Below(asked_ms / 2 + 1));
}

void RetryPolicy::Wait(int64_t wait_ms) const {
  if (options_.sleep != nullptr) return options_.sleep(wait_ms);
  while (wait_ms > 0 && context_.Check().ok()) {
    int64_t slice_ms = std::min(wait_ms, kLookEvery_ms);
    std::this_thread::sleep_for(std::chrono::milliseconds(slice_ms));
    wait_ms -= slice_ms;
  }
}

#define TILEKV_RETRY(Name, effect)                                                          \
  absl::StatusOr<v1::Name##Response> RetryingNode::Name(const v1::Name##Request& request,   \
                                                        const CallContext& context) {       \
    return Retry(effect, options_, context, [&] { return node_->Name(request, context); }); \
  }
TILEKV_RETRY(Info, Effect::kNone)
TILEKV_RETRY(Link, Effect::kNone)
TILEKV_RETRY(ReportDamage, Effect::kNone)
TILEKV_RETRY(BeginSession, Effect::kNone)
TILEKV_RETRY(EndSession, Effect::kNone)
TILEKV_RETRY(Commit, Effect::kRepeatable)
TILEKV_RETRY(GetValue, Effect::kNone)
TILEKV_RETRY(DeleteValue, Effect::kOnce)
TILEKV_RETRY(ListValues, Effect::kNone)
TILEKV_RETRY(BatchGet, Effect::kNone)
TILEKV_RETRY(ListModels, Effect::kNone)
TILEKV_RETRY(ResolveVersion, Effect::kNone)
TILEKV_RETRY(ListVersions, Effect::kNone)
TILEKV_RETRY(SetTag, Effect::kOnce)
TILEKV_RETRY(RemoveTag, Effect::kOnce)
TILEKV_RETRY(DeleteVersions, Effect::kOnce)
TILEKV_RETRY(UndeleteVersion, Effect::kOnce)
TILEKV_RETRY(MoveModel, Effect::kOnce)
TILEKV_RETRY(Locate, Effect::kNone)
TILEKV_RETRY(FindReferrers, Effect::kNone)
TILEKV_RETRY(Usage, Effect::kNone)
TILEKV_RETRY(Collect, Effect::kOnce)
TILEKV_RETRY(Fsck, Effect::kNone)
TILEKV_RETRY(Recode, Effect::kNone)
TILEKV_RETRY(ClusterStatus, Effect::kNone)
TILEKV_RETRY(ClusterCheck, Effect::kNone)
TILEKV_RETRY(ChangeCluster, Effect::kOnce)
#undef TILEKV_RETRY

absl::StatusOr<v1::CommitResponse> RetryingNode::CopyVersion(const v1::CopyVersionRequest& request,
                                                             const CallContext& context) {
  return Retry(Effect::kRepeatable, options_, context,
               [&] { return node_->CopyVersion(request, context); });
}

absl::StatusOr<std::unique_ptr<NodeService::SessionKeeper>> RetryingNode::KeepSession(
    const std::string& token, const CallContext& context) {
  return Retry(Effect::kNone, options_, context,
               [&] { return node_->KeepSession(token, context); });
}

absl::StatusOr<bool> RetryingNode::PutObject(const ObjectPut& put, const CallContext& context) {
  TryCounter tries(put.stats == nullptr ? nullptr : &put.stats->retries,
                   put.stats == nullptr ? nullptr : &put.stats->retry_nanos);
  return Retry(Effect::kNone, options_, context, [&] {
    tries.Begin();
    absl::StatusOr<bool> stored = node_->PutObject(put, context);
    if (!stored.ok()) tries.Failed();
    return stored;
  });
}

absl::Status RetryingNode::ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats,
                                       const CallContext& context) {
  TryCounter tries(stats == nullptr ? nullptr : &stats->retries,
                   stats == nullptr ? nullptr : &stats->retry_nanos);
  auto read = [&] {
    tries.Begin();
    const uint64_t asked_bytes = stats == nullptr ? 0 : stats->asked_bytes;
    absl::Status status = node_->ReadObjects(reads, stats, context);
    if (status.ok()) return status;
    tries.Failed();
    if (stats != nullptr) stats->asked_bytes = asked_bytes;  // the caller asks once
    return status;
  };
  absl::Status status = Retry(Effect::kNone, options_, context, read);
  if (GetReason(status) != Reason::kDataLoss) return status;
  // The node was told of it. One of a cluster gives another copy now; what others say then, that
  // nothing is there or much else, is not what was wrong.
  return Retry(Effect::kNone, options_, context, read).ok() ? absl::OkStatus() : status;
}

absl::StatusOr<v1::PutValueOutcome> RetryingNode::PutValue(const v1::PutValueHeader& header,
                                                           ByteSource* source,
                                                           const CompareFixed& fixed,
                                                           const CallContext& context) {
  return node_->PutValue(header, source, fixed, context);
}

absl::StatusOr<v1::BatchPutResponse> RetryingNode::BatchPut(const v1::BatchPutRequest& request,
                                                            const ComparesFixed& fixed,
                                                            const CallContext& context) {
  return node_->BatchPut(request, fixed, context);
}

}  // namespace tilekv
