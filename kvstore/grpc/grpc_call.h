// What calls over gRPC have in common on the side that asks, of a client and of a node that asks
// another one: deadlines, cancellation, waiting. Pulls in gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"

namespace tilekv {

// Gives the call the context's deadline.
void SetDeadline(const CallContext& context, grpc::ClientContext& call);
// The error that the node sent, or that gRPC made, with what the node asks of who tries again.
// `call` is over. A call that was broken off though `context` still wants it is NODE_UNAVAILABLE.
absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& call,
                      const CallContext& context, const std::string& node);
// That nothing of a call moved for so long: it was waited for, and is not tried again.
absl::Status Stalled(std::string text);
// The same of a question.
absl::Status NoAnswer(const std::string& name, int64_t timeout_ms, const std::string& node);
// The parts of a received message, which `slices` keeps alive.
std::vector<Bytes> PiecesOf(const grpc::ByteBuffer& message, std::vector<grpc::Slice>& slices);

// One call in flight: its thread waits, gRPC's threads tell what happens. Thread-safe.
class CallWatch {
 public:
  // `call` outlives the watch.
  explicit CallWatch(grpc::ClientContext* call) : call_(call) {}

  // Something moved.
  void Progress();
  // From now on so much time may pass without progress; 0: any.
  void SetStallTimeout(int64_t timeout_ms);
  // The call is over.
  void Done(const grpc::Status& status);
  // Waits for Done. Cancels the call when the context is cancelled or nothing moves for too long.
  grpc::Status Wait(const CallContext& context);
  // Waits until `ready` or Done; true for `ready`. It is asked under the lock of Update.
  bool WaitUntil(const CallContext& context, const std::function<bool()>& ready);
  // Changes what a `ready` looks at.
  void Update(const std::function<void()>& change);

  bool stalled();  // Wait cancelled the call since nothing moved

 private:
  void CheckOn(const CallContext& context) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::ClientContext* const call_;
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool stalled_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t stall_timeout_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t progress_nanos_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
  // What the waiter waits for; whatever else changes does not wake it.
  const std::function<bool()>* awaited_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// A call with one request and one reply. `start` gets the call and what to tell when it is over,
// and starts it; `name` and `node` are named in errors. So much time may pass until the answer; 0:
// any.
template <typename Response, typename Start>
absl::StatusOr<Response> CallUnary(const Start& start, const std::string& name, int64_t timeout_ms,
                                   const std::string& node, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  grpc::ClientContext call;
  SetDeadline(context, call);
  CallWatch watch(&call);
  watch.SetStallTimeout(timeout_ms);
  Response response;
  start(&call, &response, [&watch](grpc::Status status) { watch.Done(status); });
  grpc::Status status = watch.Wait(context);
  if (status.ok()) return response;
  if (watch.stalled()) return NoAnswer(name, timeout_ms, node);
  return FromGrpc(status, call, context, node);
}

}  // namespace tilekv
