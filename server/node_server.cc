#include "server/node_server.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "server/grpc_calls.h"
#include "server/grpc_peer_service.h"
#include "server/listener.h"
#include "server/periodic_work.h"

namespace tilekv {
namespace {

constexpr int kLookaheadBytes = static_cast<int>(kMiB);
constexpr int kMaxFrameBytes = (1 << 24) - 1;
constexpr int kMaxStreamsOfAConnection = 256;
// Dead clients are noticed in half a minute; living ones may ask every few seconds.
constexpr int kKeepaliveMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
constexpr int kLeastPingIntervalMs = 5'000;
// How often transfers that wait, and those that stand still, are looked at.
constexpr int64_t kTickEvery_ms = 500;

void SetArguments(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxReceiveBytes));
  builder.AddChannelArgument("grpc.http2.max_frame_size", kMaxFrameBytes);
  builder.AddChannelArgument("grpc.http2.lookahead_bytes", kLookaheadBytes);
  builder.AddChannelArgument("grpc.http2.bdp_probe", 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsOfAConnection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Who connects and says nothing is not kept.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(kHandshakeTimeout_s * 1'000));
}

class GrpcNodeServer : public NodeServer {
 public:
  GrpcNodeServer(LocalNode& node, ServerMetrics& metrics, const NodeServerOptions& options)
      : context_(node, metrics, PlanMemory(options.memory_bytes, options.peers.has_value()),
                 options.transfer_queue_ms, options.stalled_transfer_ms, options.slow_call_ms),
        service_(NewNodeService(context_)) {
    if (!options.peers.has_value()) return;
    peers_ = std::make_unique<PeerContext>(*options.peers, metrics, context_.slow_calls,
                                           context_.pool, context_.plan, options.transfer_queue_ms,
                                           options.stalled_transfer_ms);
    peer_service_ = NewPeerService(*peers_);
  }

  ~GrpcNodeServer() override { Shutdown(0); }

  absl::Status Listen(const std::string& address) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    SetArguments(builder);
    TILEKV_ASSIGN_OR_RETURN(ListenAddress parsed, ListenAddress::Parse(address));
    TILEKV_ASSIGN_OR_RETURN(listener_, Listener::Listen(parsed));
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    builder.RegisterService(service_.get());
    if (peer_service_ != nullptr) builder.RegisterService(peer_service_.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return MakeError(Reason::kInternal, "gRPC did not start");
    listener_->Start([this](int listening, int fd) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.listener_fd = listening;
      connection.fd = fd;
      acceptor_->HandleNewConnection(&connection);
    });
    server_->GetHealthCheckService()->SetServingStatus(true);
    ticking_ = std::make_unique<PeriodicWork>(kTickEvery_ms, [this] {
      context_.slots.Tick();
      context_.small_puts.Tick();
      context_.short_reads.Tick();
      if (peers_ != nullptr) peers_->Tick();
    });
    return absl::OkStatus();
  }

  int port() const override { return listener_->port(); }

  void Shutdown(int64_t drain_ms) override {
    if (server_ == nullptr) return;
    server_->GetHealthCheckService()->SetServingStatus(false);
    listener_->Stop();
    context_.open_calls.EndAll();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(drain_ms));
    server_->Wait();
    server_.reset();
    ticking_.reset();
  }

  uint64_t stream_bytes_held() override { return context_.client_stream.budget().used_bytes(); }
  uint64_t read_bytes_held() override {
    return context_.client_read.budget().used_bytes() + context_.short_read.budget().used_bytes();
  }
  uint64_t read_bytes_peak() override { return context_.client_read.budget().peak_bytes(); }

 private:
  ServiceContext context_;
  const std::unique_ptr<grpc::Service> service_;
  // Of a node of a cluster.
  std::unique_ptr<PeerContext> peers_;
  std::unique_ptr<grpc::Service> peer_service_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<PeriodicWork> ticking_;  // stops first
};

std::atomic<void (*)(bool error, const std::string& text)> grpc_log{nullptr};

void WriteGrpcLog(gpr_log_func_args* args) {
  if (auto* write = grpc_log.load()) write(args->severity == GPR_LOG_SEVERITY_ERROR, args->message);
}

}  // namespace

void SetGrpcLog(void (*write)(bool error, const std::string& text)) {
  grpc_log = write;
  gpr_set_log_function(&WriteGrpcLog);
}

absl::StatusOr<std::unique_ptr<NodeServer>> NodeServer::Start(LocalNode& node,
                                                              ServerMetrics& metrics,
                                                              const NodeServerOptions& options) {
  auto server = std::make_unique<GrpcNodeServer>(node, metrics, options);
  TILEKV_RETURN_IF_ERROR(server->Listen(options.listen));
  return server;
}

}  // namespace tilekv
