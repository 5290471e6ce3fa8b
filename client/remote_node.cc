#include "client/remote_node.h"

#include <algorithm>
#include <utility>

#include "client/remote_channels.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int64_t kPoolIdleBytes = 8 * kMiB;
constexpr int kLookaheadBytes = 8 * static_cast<int>(kMiB);
constexpr int kMaxFrameBytes = (1 << 24) - 1;
constexpr int kKeepaliveMs = 10'000;

grpc::ChannelArguments ChannelArgumentsFor(int connection) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxReceiveBytes));
  arguments.SetInt("grpc.http2.max_frame_size", kMaxFrameBytes);
  arguments.SetInt("grpc.http2.lookahead_bytes", kLookaheadBytes);
  arguments.SetInt("grpc.http2.bdp_probe", 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A node that was restarted is found again within two seconds of its return.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // Without a pool of its own and an argument that differs, gRPC shares one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt("tilekv.connection", connection);
  return arguments;
}

// For what a node may keep a caller waiting, and so for how long before it is taken to hang.
enum class Waits {
  kToRead,   // progress_timeout_ms
  kToWrite,  // sync_timeout_ms
  kToWalk,   // as long as the connection answers
};

class RemoteNode : public NodeService {
 public:
  explicit RemoteNode(std::shared_ptr<RemoteChannels> channels) : channels_(std::move(channels)) {}

#define TILEKV_REMOTE_CALL(Name, Response, waits)                                                 \
  absl::StatusOr<v1::Response> Name(const v1::Name##Request& request, const CallContext& context) \
      override {                                                                                  \
    return Unary<v1::Name##Request, v1::Response>(                                                \
        [this](auto&&... arguments) {                                                             \
          channels_->control().async()->Name(std::forward<decltype(arguments)>(arguments)...);    \
        },                                                                                        \
        #Name, waits, request, context);                                                          \
  }
  TILEKV_REMOTE_CALL(Info, InfoResponse, Waits::kToRead)
  TILEKV_REMOTE_CALL(Link, LinkResponse, Waits::kToWrite)
  TILEKV_REMOTE_CALL(ReportDamage, ReportDamageResponse, Waits::kToWalk)
  TILEKV_REMOTE_CALL(BeginSession, BeginSessionResponse, Waits::kToWrite)
  TILEKV_REMOTE_CALL(EndSession, EndSessionResponse, Waits::kToWrite)
  TILEKV_REMOTE_CALL(Commit, CommitResponse, Waits::kToWalk)
  TILEKV_REMOTE_CALL(GetValue, GetValueResponse, Waits::kToRead)
  TILEKV_REMOTE_CALL(DeleteValue, DeleteValueResponse, Waits::kToWrite)
  TILEKV_REMOTE_CALL(ListValues, ListValuesResponse, Waits::kToRead)
  TILEKV_REMOTE_CALL(BatchGet, BatchGetResponse, Waits::kToRead)
  TILEKV_REMOTE_CALL(ListModels, ListModelsResponse, Waits::kToRead)
  TILEKV_REMOTE_CALL(ResolveVersion, ResolveVersionResponse, Waits::kToRead)
  TILEKV_REMOTE_CALL(ListVersions, ListVersionsResponse, Waits::kToRead)
  TILEKV_REMOTE_CALL(SetTag, SetTagResponse, Waits::kToWrite)
  TILEKV_REMOTE_CALL(RemoveTag, RemoveTagResponse, Waits::kToWrite)
  TILEKV_REMOTE_CALL(DeleteVersions, DeleteVersionsResponse, Waits::kToWrite)
  TILEKV_REMOTE_CALL(UndeleteVersion, UndeleteVersionResponse, Waits::kToWrite)
  TILEKV_REMOTE_CALL(MoveModel, MoveModelResponse, Waits::kToWrite)
  TILEKV_REMOTE_CALL(CopyVersion, CommitResponse, Waits::kToWalk)
  TILEKV_REMOTE_CALL(Locate, LocateResponse, Waits::kToRead)
  TILEKV_REMOTE_CALL(FindReferrers, FindReferrersResponse, Waits::kToWalk)
  TILEKV_REMOTE_CALL(Usage, UsageResponse, Waits::kToWalk)
  TILEKV_REMOTE_CALL(Collect, CollectResponse, Waits::kToWalk)
  TILEKV_REMOTE_CALL(Fsck, FsckResponse, Waits::kToWalk)
  TILEKV_REMOTE_CALL(Recode, RecodeResponse, Waits::kToWalk)
#undef TILEKV_REMOTE_CALL

  absl::StatusOr<std::unique_ptr<SessionKeeper>> KeepSession(const std::string& token,
                                                             const CallContext& context) override {
    return RemoteKeepSession(channels_, token, context);
  }
  absl::StatusOr<bool> PutObject(const ObjectPut& put, const CallContext& context) override {
    return RemotePutObject(*channels_, put, context);
  }
  absl::Status ReadObjects(std::span<const ObjectRead> reads, ReadStats* stats,
                           const CallContext& context) override {
    return RemoteReadObjects(*channels_, reads, stats, context);
  }
  absl::StatusOr<v1::PutValueOutcome> PutValue(const v1::PutValueHeader& header, ByteSource* source,
                                               const CompareFixed& fixed,
                                               const CallContext& context) override {
    return RemotePutValue(*channels_, header, source, fixed, context);
  }
  absl::StatusOr<v1::BatchPutResponse> BatchPut(const v1::BatchPutRequest& request,
                                                const ComparesFixed& fixed,
                                                const CallContext& context) override {
    return RemoteBatchPut(*channels_, request, fixed, context);
  }

 private:
  template <typename Request, typename Response, typename Start>
  absl::StatusOr<Response> Unary(Start start, const char* name, Waits waits, const Request& request,
                                 const CallContext& context) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    grpc::ClientContext call;
    SetDeadline(context, call);
    CallWatch watch(&call);
    int64_t timeout_ms = TimeoutMs(waits);
    watch.SetStallTimeout(timeout_ms);
    Response response;
    start(&call, &request, &response, [&watch](grpc::Status status) { watch.Done(status); });
    grpc::Status status = watch.Wait(context);
    if (status.ok()) return response;
    if (watch.stalled()) {
      return Stalled(
          fmt::format("node {} did not answer {} within {} ms: it hangs, or the network "
                      "to it is broken",
                      channels_->address(), name, timeout_ms));
    }
    return FromGrpc(status, call, context, channels_->address());
  }

  int64_t TimeoutMs(Waits waits) const {
    const RemoteOptions& options = channels_->options();
    if (waits == Waits::kToWalk) return 0;
    return waits == Waits::kToRead ? options.progress_timeout_ms : options.sync_timeout_ms;
  }

  const std::shared_ptr<RemoteChannels> channels_;
};

}  // namespace

RemoteChannels::RemoteChannels(const std::string& address, const RemoteOptions& options)
    : address_(address), options_(options), pool_(BufferPool::Create(kPoolIdleBytes)) {
  for (int i = 0; i < std::max(1, options.connections); ++i) {
    auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                             ChannelArgumentsFor(i));
    if (i == 0) control_ = v1::Node::NewStub(channel);
    bulk_.push_back(std::make_unique<grpc::GenericStub>(channel));
  }
}

grpc::GenericStub& RemoteChannels::NextBulk() { return *bulk_[next_++ % bulk_.size()]; }

absl::StatusOr<std::shared_ptr<NodeService>> ConnectNode(const std::string& address,
                                                         const RemoteOptions& options,
                                                         const CallContext& context) {
  auto node = std::make_shared<RemoteNode>(std::make_shared<RemoteChannels>(address, options));
  auto info = node->Info({}, context.WithTimeout(options.connect_timeout_ms));
  if (info.ok()) return node;
  if (GetReason(info.status()) != Reason::kDeadlineExceeded) return info.status();
  return MakeError(
      Reason::kNodeUnavailable,
      fmt::format("node {} did not answer within {} ms. Check that tilekv-server runs there, that "
                  "the address is right and that no firewall is between",
                  address, options.connect_timeout_ms));
}

}  // namespace tilekv
