#include "kvstore/retrying_node.h"

#include <chrono>
#include <thread>
#include <utility>

#include "kvstore/base/clock.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int kMaxDoublings = 6;

enum class Twice { kSafe, kNotSafe };

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

template <typename Call>
auto Retry(Twice twice, const RetryOptions& options, const CallContext& context, Call call) {
  RetryPolicy policy(options, context);
  auto result = call();
  while (true) {
    Reason reason = GetReason(StatusOf(result));
    bool again = reason == Reason::kOverloaded ||
                 (reason == Reason::kNodeUnavailable && twice == Twice::kSafe);
    if (!again || !policy.TryAgain()) return result;
    result = call();
  }
}

}  // namespace

bool RetryPolicy::TryAgain() {
  if (tries_ >= options_.max_tries || !context_.Check().ok()) return false;
  int64_t most_ms = options_.first_wait_ms << std::min(tries_ - 1, kMaxDoublings);
  ++tries_;
  int64_t wait_ms = most_ms / 2 + static_cast<int64_t>(options_.random->Below(most_ms / 2 + 1));
  if (context_.deadline_ns != std::numeric_limits<int64_t>::max()) {
    int64_t left_ms = (context_.deadline_ns - Clock::System()->MonotonicNanos()) / 1'000'000;
    if (left_ms <= wait_ms) return false;
  }
  if (options_.sleep != nullptr) {
    options_.sleep(wait_ms);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
  }
  return true;
}

#define TILEKV_RETRY(Name, twice)                                                          \
  absl::StatusOr<v1::Name##Response> RetryingNode::Name(const v1::Name##Request& request,  \
                                                        const CallContext& context) {      \
    return Retry(twice, options_, context, [&] { return node_->Name(request, context); }); \
  }
TILEKV_RETRY(Info, Twice::kSafe)
TILEKV_RETRY(Link, Twice::kSafe)
TILEKV_RETRY(BeginSession, Twice::kSafe)
TILEKV_RETRY(EndSession, Twice::kSafe)
TILEKV_RETRY(Commit, Twice::kSafe)
TILEKV_RETRY(GetValue, Twice::kSafe)
TILEKV_RETRY(DeleteValue, Twice::kNotSafe)
TILEKV_RETRY(ListValues, Twice::kSafe)
TILEKV_RETRY(BatchGet, Twice::kSafe)
TILEKV_RETRY(ListModels, Twice::kSafe)
TILEKV_RETRY(ResolveVersion, Twice::kSafe)
TILEKV_RETRY(ListVersions, Twice::kSafe)
TILEKV_RETRY(SetTag, Twice::kNotSafe)
TILEKV_RETRY(RemoveTag, Twice::kNotSafe)
TILEKV_RETRY(DeleteVersions, Twice::kNotSafe)
TILEKV_RETRY(UndeleteVersion, Twice::kNotSafe)
TILEKV_RETRY(Locate, Twice::kSafe)
TILEKV_RETRY(FindReferrers, Twice::kSafe)
TILEKV_RETRY(Usage, Twice::kSafe)
TILEKV_RETRY(Collect, Twice::kNotSafe)
TILEKV_RETRY(Fsck, Twice::kSafe)
#undef TILEKV_RETRY

absl::StatusOr<v1::CommitResponse> RetryingNode::CopyVersion(const v1::CopyVersionRequest& request,
                                                             const CallContext& context) {
  return Retry(Twice::kSafe, options_, context,
               [&] { return node_->CopyVersion(request, context); });
}

absl::StatusOr<std::unique_ptr<NodeService::SessionKeeper>> RetryingNode::KeepSession(
    const std::string& token) {
  const CallContext context;
  return Retry(Twice::kSafe, options_, context, [&] { return node_->KeepSession(token); });
}

absl::StatusOr<bool> RetryingNode::PutObject(const ObjectPut& put, const CallContext& context) {
  return Retry(Twice::kSafe, options_, context, [&] { return node_->PutObject(put, context); });
}

absl::Status RetryingNode::ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats,
                                       const CallContext& context) {
  return Retry(Twice::kSafe, options_, context,
               [&] { return node_->ReadObjects(reads, stats, context); });
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
