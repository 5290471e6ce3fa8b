#include <algorithm>
#include <chrono>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/retry_hint.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/status_wire.h"
#include "server/grpc_calls.h"
#include "server/unary_reactor.h"

namespace tilekv {
namespace {

// First<Second<...<v1::Node::Service>>>: generated classes, one for each method, that say how it is
// served.
template <template <typename> typename... Methods>
struct Served {
  using Service = v1::Node::Service;
};
template <template <typename> typename First, template <typename> typename... Rest>
struct Served<First, Rest...> {
  using Service = First<typename Served<Rest...>::Service>;
};
using NodeMethods =
    Served<v1::Node::WithRawCallbackMethod_PutObject, v1::Node::WithRawCallbackMethod_ReadObjects,
           v1::Node::WithRawCallbackMethod_PutValue, v1::Node::WithCallbackMethod_Info,
           v1::Node::WithCallbackMethod_Link, v1::Node::WithCallbackMethod_ReportDamage,
           v1::Node::WithCallbackMethod_BeginSession, v1::Node::WithCallbackMethod_KeepSession,
           v1::Node::WithCallbackMethod_EndSession, v1::Node::WithCallbackMethod_Commit,
           v1::Node::WithCallbackMethod_GetValue, v1::Node::WithCallbackMethod_DeleteValue,
           v1::Node::WithCallbackMethod_ListValues, v1::Node::WithCallbackMethod_BatchGet,
           v1::Node::WithRawCallbackMethod_BatchPut, v1::Node::WithCallbackMethod_ListModels,
           v1::Node::WithCallbackMethod_ResolveVersion, v1::Node::WithCallbackMethod_ListVersions,
           v1::Node::WithCallbackMethod_SetTag, v1::Node::WithCallbackMethod_RemoveTag,
           v1::Node::WithCallbackMethod_DeleteVersions,
           v1::Node::WithCallbackMethod_UndeleteVersion, v1::Node::WithCallbackMethod_CopyVersion,
           v1::Node::WithCallbackMethod_MoveModel, v1::Node::WithCallbackMethod_Locate,
           v1::Node::WithCallbackMethod_FindReferrers, v1::Node::WithCallbackMethod_Usage,
           v1::Node::WithCallbackMethod_Collect, v1::Node::WithCallbackMethod_Fsck,
           v1::Node::WithCallbackMethod_Recode, v1::Node::WithCallbackMethod_ClusterStatus,
           v1::Node::WithCallbackMethod_ClusterCheck,
           v1::Node::WithCallbackMethod_ChangeCluster>::Service;

class GrpcNodeService : public NodeMethods {
 public:
  explicit GrpcNodeService(ServiceContext& service) : service_(service) {}

#define TILEKV_UNARY(Name, Response, executor)                                             \
  grpc::ServerUnaryReactor* Name(grpc::CallbackServerContext* call,                        \
                                 const v1::Name##Request* request, v1::Response* response) \
      override {                                                                           \
    auto* reactor = new UnaryReactor<v1::Response>(service_, *call, #Name);                \
    reactor->Start(                                                                        \
        service_.calls, service_.executor, request->ByteSizeLong(),                        \
        [this, request](const CallContext& context) {                                      \
          return service_.node.Name(*request, context);                                    \
        },                                                                                 \
        response);                                                                         \
    return reactor;                                                                        \
  }
  TILEKV_UNARY(Info, InfoResponse, short_calls)
  TILEKV_UNARY(Link, LinkResponse, short_calls)
  TILEKV_UNARY(ReportDamage, ReportDamageResponse, long_calls)
  TILEKV_UNARY(BeginSession, BeginSessionResponse, short_calls)
  TILEKV_UNARY(EndSession, EndSessionResponse, short_calls)
  TILEKV_UNARY(Commit, CommitResponse, commits)
  TILEKV_UNARY(GetValue, GetValueResponse, short_calls)
  TILEKV_UNARY(DeleteValue, DeleteValueResponse, short_calls)
  TILEKV_UNARY(ListValues, ListValuesResponse, short_calls)
  TILEKV_UNARY(BatchGet, BatchGetResponse, short_calls)
  TILEKV_UNARY(ListModels, ListModelsResponse, short_calls)
  TILEKV_UNARY(ResolveVersion, ResolveVersionResponse, short_calls)
  TILEKV_UNARY(ListVersions, ListVersionsResponse, short_calls)
  TILEKV_UNARY(SetTag, SetTagResponse, short_calls)
  TILEKV_UNARY(RemoveTag, RemoveTagResponse, short_calls)
  TILEKV_UNARY(DeleteVersions, DeleteVersionsResponse, short_calls)
  TILEKV_UNARY(UndeleteVersion, UndeleteVersionResponse, short_calls)
  TILEKV_UNARY(MoveModel, MoveModelResponse, short_calls)
  TILEKV_UNARY(CopyVersion, CommitResponse, commits)
  TILEKV_UNARY(Locate, LocateResponse, short_calls)
  TILEKV_UNARY(FindReferrers, FindReferrersResponse, long_calls)
  TILEKV_UNARY(Usage, UsageResponse, long_calls)
  TILEKV_UNARY(Collect, CollectResponse, long_calls)
  TILEKV_UNARY(Fsck, FsckResponse, long_calls)
  TILEKV_UNARY(Recode, RecodeResponse, long_calls)
  TILEKV_UNARY(ClusterStatus, ClusterStatusResponse, short_calls)
  TILEKV_UNARY(ClusterCheck, ClusterCheckResponse, long_calls)
  TILEKV_UNARY(ChangeCluster, ChangeClusterResponse, short_calls)
#undef TILEKV_UNARY

  grpc::ServerReadReactor<grpc::ByteBuffer>* PutObject(grpc::CallbackServerContext* call,
                                                       grpc::ByteBuffer* response) override {
    return ServePutObject(service_, *call, response);
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadObjects(
      grpc::CallbackServerContext* call, const grpc::ByteBuffer* request) override {
    return ServeReadObjects(service_, *call, request);
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* PutValue(
      grpc::CallbackServerContext* call) override {
    return ServePutValue(service_, *call);
  }
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* BatchPut(
      grpc::CallbackServerContext* call) override {
    return ServeBatchPut(service_, *call);
  }
  grpc::ServerBidiReactor<v1::KeepSessionRequest, v1::KeepSessionResponse>* KeepSession(
      grpc::CallbackServerContext* call) override {
    return ServeKeepSession(service_, *call);
  }

 private:
  ServiceContext& service_;
};

CallContext ContextOf(const grpc::CallbackServerContext& call) {
  CallContext context;
  context.cancel = std::make_shared<CancelToken>();
  auto deadline = call.deadline();
  if (deadline != std::chrono::system_clock::time_point::max()) {
    auto left = deadline - std::chrono::system_clock::now();
    // Far-off deadlines are none: years do not fit the arithmetic below.
    if (left < std::chrono::hours(24 * 365)) {
      context.deadline_ns = Clock::System()->MonotonicNanos() +
                            std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    }
  }
  return context;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  WireStatus wire = StatusToWire(status);
  return grpc::Status(static_cast<grpc::StatusCode>(wire.code), wire.message, wire.details);
}

ServedCall::ServedCall(ServerMetrics& metrics, SlowCalls& slow_calls,
                       grpc::CallbackServerContext& call, const char* name)
    : metrics_(metrics),
      slow_calls_(slow_calls),
      call_(call),
      name_(name),
      began_nanos_(Clock::System()->MonotonicNanos()),
      context_(ContextOf(call)) {}

grpc::Status ServedCall::End(const absl::Status& status) {
  const int64_t total_nanos = NowNanos() - began_nanos_;
  metrics_.CallEnded(name_, status.code(), total_nanos / 1'000);
  TellIfSlow(total_nanos, status);
  if (const RetryHint hint = GetRetryHint(status); hint.after_ms > 0) {
    call_.AddTrailingMetadata(kRetryAfterTrailer, fmt::format("{}", hint.after_ms));
  }
  return ToGrpc(status);
}

void ServedCall::WaitsForClient(bool waits) {
  const int64_t now_nanos = NowNanos();
  const int64_t since_nanos = client_since_nanos_.exchange(waits ? now_nanos : 0);
  if (since_nanos == 0) return;
  const int64_t waited_nanos = now_nanos - since_nanos;
  client_nanos_ += waited_nanos;
  if (waited_nanos > longest_client_nanos_) longest_client_nanos_ = waited_nanos;
}

void ServedCall::TellIfSlow(int64_t total_nanos, const absl::Status& status) {
  if (open_ended_) return;
  WaitsForClient(false);
  if (!slow_calls_.IsSlow(total_nanos, client_nanos_, longest_client_nanos_)) return;
  slow_calls_.Add({.name = name_,
                   .peer = call_.peer(),
                   .status = status,
                   .bytes = bytes_,
                   .total_nanos = total_nanos,
                   .queue_nanos = queue_nanos_,
                   .budget_nanos = budget_nanos_,
                   .client_nanos = client_nanos_});
}

std::unique_ptr<grpc::Service> NewNodeService(ServiceContext& service) {
  return std::make_unique<GrpcNodeService>(service);
}

}  // namespace tilekv
