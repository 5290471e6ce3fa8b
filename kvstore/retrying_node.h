// RetryingNode: the calls of another node, tried again where that is safe.
//
// NODE_UNAVAILABLE: the call may have happened or not; where it changes something, the error that
// comes in the end says so. Calls that may be sent twice are: reads,
// links, puts of objects, sessions, commits (by their commit id). OVERLOADED: the call has not
// happened; any call is sent again. Puts of values go through as they are: who knows their source
// and their compare retries them (node_store.h). Waits grow from one try to the next, with jitter,
// and are never shorter than the node asks for. Tries end after a time, not after a number: a node
// that is restarted is waited for, one that hangs is not (retry_hint.h). A read of which damage
// came is made once more: where there are several copies, the node has left that one.
//
// Thread-safe where the other node is.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/random.h"
#include "kvstore/node/node_service.h"

namespace tilekv {

struct RetryOptions {
  int64_t retry_for_ms = kRetryFor_s * 1'000;  // from the first failure on; 0: never
  int64_t first_wait_ms = 50;  // doubled from try to try; the wait is between half of it and all
  int64_t longest_wait_ms = 2'000;
  Clock* clock = Clock::System();
  Random* random = Random::System();
  std::function<void(int64_t ms)> sleep;  // none: the thread sleeps, and wakes when cancelled
  // Told once by each call that has been trying for longer than a second, from its thread.
  std::function<void(const absl::Status& failed)> waiting;
};

// Whether to try again, after a wait. One for each call.
class RetryPolicy {
 public:
  RetryPolicy(const RetryOptions& options, const CallContext& context)
      : options_(options), context_(context) {}
  // `failed` is how the last try ended. False: it is in vain, time is up, or the caller does not
  // want it any more. Otherwise waits first.
  bool TryAgain(const absl::Status& failed);
  // The error of the whole call: CANCELLED where it was given up by its caller, else `failed`.
  absl::Status Outcome(const absl::Status& failed) const;

 private:
  int64_t NextWaitMs(int64_t asked_ms);
  void Wait(int64_t wait_ms) const;

  const RetryOptions& options_;
  const CallContext& context_;
  int waits_ = 0;
  int64_t failed_first_nanos_ = 0;
  bool told_ = false;
};

class RetryingNode : public NodeService {
 public:
  RetryingNode(std::shared_ptr<NodeService> node, RetryOptions options)
      : node_(std::move(node)), options_(std::move(options)) {}

#define TILEKV_NODE_CALL(Name)                                              \
  absl::StatusOr<v1::Name##Response> Name(const v1::Name##Request& request, \
                                          const CallContext& context = {}) override
  TILEKV_NODE_CALL(Info);
  TILEKV_NODE_CALL(Link);
  TILEKV_NODE_CALL(ReportDamage);
  TILEKV_NODE_CALL(BeginSession);
  TILEKV_NODE_CALL(EndSession);
  TILEKV_NODE_CALL(Commit);
  TILEKV_NODE_CALL(GetValue);
  TILEKV_NODE_CALL(DeleteValue);
  TILEKV_NODE_CALL(ListValues);
  TILEKV_NODE_CALL(BatchGet);
  TILEKV_NODE_CALL(ListModels);
  TILEKV_NODE_CALL(ResolveVersion);
  TILEKV_NODE_CALL(ListVersions);
  TILEKV_NODE_CALL(SetTag);
  TILEKV_NODE_CALL(RemoveTag);
  TILEKV_NODE_CALL(DeleteVersions);
  TILEKV_NODE_CALL(UndeleteVersion);
  TILEKV_NODE_CALL(MoveModel);
  TILEKV_NODE_CALL(Locate);
  TILEKV_NODE_CALL(FindReferrers);
  TILEKV_NODE_CALL(Usage);
  TILEKV_NODE_CALL(Collect);
  TILEKV_NODE_CALL(Fsck);
  TILEKV_NODE_CALL(Recode);
  TILEKV_NODE_CALL(ClusterStatus);
  TILEKV_NODE_CALL(ClusterCheck);
  TILEKV_NODE_CALL(ChangeCluster);
#undef TILEKV_NODE_CALL
  absl::StatusOr<v1::CommitResponse> CopyVersion(const v1::CopyVersionRequest& request,
                                                 const CallContext& context = {}) override;
  absl::StatusOr<std::unique_ptr<SessionKeeper>> KeepSession(
      const std::string& token, const CallContext& context = {}) override;
  absl::StatusOr<bool> PutObject(const ObjectPut& put, const CallContext& context = {}) override;
  absl::Status ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats = nullptr,
                           const CallContext& context = {}) override;
  absl::StatusOr<v1::PutValueOutcome> PutValue(const v1::PutValueHeader& header, ByteSource* source,
                                               const CompareFixed& fixed,
                                               const CallContext& context = {}) override;
  absl::StatusOr<v1::BatchPutResponse> BatchPut(const v1::BatchPutRequest& request,
                                                const ComparesFixed& fixed,
                                                const CallContext& context = {}) override;

 private:
  const std::shared_ptr<NodeService> node_;
  const RetryOptions options_;
};

}  // namespace tilekv
