#include "client/remote_node.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <utility>

#include "client/remote_channels.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/grpc/channel_arguments.h"

namespace tilekv {
namespace {

constexpr int64_t kPoolIdleBytes = 8 * kMiB;
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
  TILEKV_REMOTE_CALL(ClusterStatus, ClusterStatusResponse, Waits::kToRead)
  TILEKV_REMOTE_CALL(ClusterCheck, ClusterCheckResponse, Waits::kToWalk)
  TILEKV_REMOTE_CALL(ChangeCluster, ChangeClusterResponse, Waits::kToWrite)
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
    return CallUnary<Response>([&](grpc::ClientContext* call, Response* response,
                                   auto done) { start(call, &request, response, std::move(done)); },
                               name, TimeoutMs(waits), channels_->address(), context);
  }

  int64_t TimeoutMs(Waits waits) const {
    const RemoteOptions& options = channels_->options();
    if (waits == Waits::kToWalk) return 0;
    return waits == Waits::kToRead ? options.progress_timeout_ms : options.sync_timeout_ms;
  }

  const std::shared_ptr<RemoteChannels> channels_;
};

}  // namespace

RemoteChannels::RemoteChannels(const std::string& target, const std::string& address,
                               const RemoteOptions& options)
    : address_(address), options_(options), pool_(BufferPool::Create(kPoolIdleBytes)) {
  for (int i = 0; i < std::max(1, options.connections); ++i) {
    auto channel = grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                             BulkChannelArguments(i));
    if (i == 0) control_ = v1::Node::NewStub(channel);
    bulk_.push_back(std::make_unique<grpc::GenericStub>(channel));
  }
}

grpc::GenericStub& RemoteChannels::NextBulk() { return *bulk_[next_++ % bulk_.size()]; }

namespace {

absl::StatusOr<std::shared_ptr<NodeService>> ConnectTarget(const std::string& target,
                                                           const std::string& address,
                                                           const RemoteOptions& options,
                                                           const CallContext& context) {
  auto node =
      std::make_shared<RemoteNode>(std::make_shared<RemoteChannels>(target, address, options));
  auto info = node->Info({}, context.WithTimeout(options.connect_timeout_ms));
  if (info.ok()) return node;
  if (GetReason(info.status()) != Reason::kDeadlineExceeded) return info.status();
  return MakeError(
      Reason::kNodeUnavailable,
      fmt::format("node {} did not answer within {} ms. Check that tilekv-server runs there, that "
                  "the address is right and that no firewall is between",
                  address, options.connect_timeout_ms));
}

// "10.0.0.5:7070"; empty where the host has no IPv4 address.
std::string ResolveV4(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address[0] == '[') return "";
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.substr(0, colon).c_str(), nullptr, &hints, &found) != 0) return "";
  std::array<char, INET_ADDRSTRLEN> text{};
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  const char* shown = inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
  freeaddrinfo(found);
  return shown == nullptr ? "" : std::string(shown) + address.substr(colon);
}

}  // namespace

absl::StatusOr<std::shared_ptr<NodeService>> ConnectNode(const std::string& address,
                                                         const RemoteOptions& options,
                                                         const CallContext& context) {
  return ConnectTarget(address, address, options, context);
}

absl::StatusOr<std::shared_ptr<NodeService>> ConnectAnyNode(
    const std::vector<std::string>& addresses, const RemoteOptions& options,
    const CallContext& context) {
  // gRPC takes several addresses as one target, and goes on at the next by itself; of IPv4 only.
  std::string resolved;
  std::string text;
  for (const std::string& address : addresses) {
    text += (text.empty() ? "" : ",") + address;
    // One that is not known just now is left out: the others will do.
    if (const std::string v4 = ResolveV4(address); !v4.empty()) {
      resolved += (resolved.empty() ? "ipv4:" : ",") + v4;
    }
  }
  if (resolved.empty()) return ConnectNode(addresses.front(), options, context);
  return ConnectTarget(resolved, text, options, context);
}

}  // namespace tilekv
