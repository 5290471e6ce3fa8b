#include "kvstore/catalog/etcd/etcd_grpc.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/etcd/etcd.grpc.pb.h"
#include "kvstore/catalog/etcd/etcd_endpoints.h"
#include "kvstore/catalog/etcd/etcd_errors.h"
#include "kvstore/catalog/keys.h"

namespace tilekv {
namespace {

namespace pb = etcdserverpb;

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int kMaxResponseBytes = 64 << 20;  // pages are bounded by their number of entries
constexpr int kPingEvery_ms = 10'000;        // etcd closes connections that ping every 5 s or more
constexpr int kPingTimeout_ms = 5'000;
constexpr int kFirstReconnect_ms = 100;
constexpr int kGreatestReconnect_ms = 1'000;
constexpr int64_t kLeastTry_ms = 50;
constexpr int64_t kDownPatience_ms = 200;
constexpr int kConnectTimeout_ms = 2'000;

int64_t Now() { return Clock::System()->MonotonicNanos(); }

gpr_timespec ToGrpc(int64_t deadline_ns) {
  int64_t left_ns = std::max<int64_t>(0, deadline_ns - Now());
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left_ns, GPR_TIMESPAN));
}

struct Member {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<pb::KV::Stub> kv;
  std::unique_ptr<pb::Lease::Stub> lease;
  std::unique_ptr<pb::Watch::Stub> watch;
  std::unique_ptr<pb::Maintenance::Stub> maintenance;
  std::unique_ptr<pb::Auth::Stub> auth;
  std::atomic<bool> suspect{false};  // it did not answer the last time
};

class GrpcWatch : public EtcdWatchStream {
 public:
  ~GrpcWatch() override {
    if (stream == nullptr) return;
    context.TryCancel();
    stream->Finish();
  }
  bool Read(pb::WatchResponse& response) override { return stream->Read(&response); }
  void Cancel() override { context.TryCancel(); }

  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<pb::WatchRequest, pb::WatchResponse>> stream;
};

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file && !text.empty()) return text;
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("'{}' for etcd cannot be read, or is empty", Printable(path)));
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const EtcdOptions& options,
                                                                      bool tls) {
  bool any_file =
      !options.ca_file.empty() || !options.cert_file.empty() || !options.key_file.empty();
  if (!tls) {
    if (!any_file) return grpc::InsecureChannelCredentials();
    return MakeError(Reason::kInvalidArgument,
                     "certificates for etcd were given, but its address does not begin with https");
  }
  if (options.cert_file.empty() != options.key_file.empty()) {
    return MakeError(Reason::kInvalidArgument,
                     "a certificate for etcd and its key are given together, or neither is");
  }
  grpc::SslCredentialsOptions ssl;
  if (!options.ca_file.empty()) {
    TILEKV_ASSIGN_OR_RETURN(ssl.pem_root_certs, ReadPem(options.ca_file));
  }
  if (!options.cert_file.empty()) {
    TILEKV_ASSIGN_OR_RETURN(ssl.pem_cert_chain, ReadPem(options.cert_file));
    TILEKV_ASSIGN_OR_RETURN(ssl.pem_private_key, ReadPem(options.key_file));
  }
  return grpc::SslCredentials(ssl);
}

std::unique_ptr<Member> MakeMember(const std::string& target,
                                   const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxResponseBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnect_ms);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeout_ms);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kGreatestReconnect_ms);
  // A watch whose member hangs ends by this.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEvery_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeout_ms);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  auto member = std::make_unique<Member>();
  member->channel = grpc::CreateCustomChannel(target, credentials, arguments);
  member->kv = pb::KV::NewStub(member->channel);
  member->lease = pb::Lease::NewStub(member->channel);
  member->watch = pb::Watch::NewStub(member->channel);
  member->maintenance = pb::Maintenance::NewStub(member->channel);
  member->auth = pb::Auth::NewStub(member->channel);
  return member;
}

class EtcdGrpc : public EtcdRpc {
 public:
  EtcdGrpc(const EtcdOptions& options, EtcdEndpoints endpoints,
           std::vector<std::unique_ptr<Member>> members)
      : options_(options), endpoints_(std::move(endpoints)), members_(std::move(members)) {}

  Reply Range(const pb::RangeRequest& request, pb::RangeResponse& response,
              int64_t deadline_ns) override {
    return Try(/*write=*/false, deadline_ns, [&](Member& member, grpc::ClientContext& context) {
      return member.kv->Range(&context, request, &response);
    });
  }
  Reply Txn(const pb::TxnRequest& request, pb::TxnResponse& response,
            int64_t deadline_ns) override {
    return Try(/*write=*/true, deadline_ns, [&](Member& member, grpc::ClientContext& context) {
      return member.kv->Txn(&context, request, &response);
    });
  }
  Reply Compact(const pb::CompactionRequest& request, pb::CompactionResponse& response,
                int64_t deadline_ns) override {
    return Try(/*write=*/false, deadline_ns, [&](Member& member, grpc::ClientContext& context) {
      return member.kv->Compact(&context, request, &response);
    });
  }
  Reply LeaseGrant(const pb::LeaseGrantRequest& request, pb::LeaseGrantResponse& response,
                   int64_t deadline_ns) override {
    return Try(/*write=*/false, deadline_ns, [&](Member& member, grpc::ClientContext& context) {
      return member.lease->LeaseGrant(&context, request, &response);
    });
  }
  Reply LeaseRevoke(const pb::LeaseRevokeRequest& request, pb::LeaseRevokeResponse& response,
                    int64_t deadline_ns) override {
    return Try(/*write=*/false, deadline_ns, [&](Member& member, grpc::ClientContext& context) {
      return member.lease->LeaseRevoke(&context, request, &response);
    });
  }
  Reply LeaseKeepAlive(const pb::LeaseKeepAliveRequest& request,
                       pb::LeaseKeepAliveResponse& response, int64_t deadline_ns) override {
    return Try(/*write=*/false, deadline_ns, [&](Member& member, grpc::ClientContext& context) {
      auto stream = member.lease->LeaseKeepAlive(&context);
      bool answered = stream->Write(request) && stream->Read(&response);
      stream->WritesDone();
      if (answered) context.TryCancel();
      grpc::Status status = stream->Finish();
      return answered ? grpc::Status::OK : status;
    });
  }
  Reply Status(const pb::StatusRequest& request, pb::StatusResponse& response,
               int64_t deadline_ns) override {
    return Try(/*write=*/false, deadline_ns, [&](Member& member, grpc::ClientContext& context) {
      return member.maintenance->Status(&context, request, &response);
    });
  }

  std::unique_ptr<EtcdWatchStream> Watch(const pb::WatchRequest& request, int64_t deadline_ns,
                                         Reply& reply) override {
    auto watch = std::make_unique<GrpcWatch>();
    Member& member = Current();
    reply = Connect(member, TryDeadline(deadline_ns));
    if (!reply.answered()) return nullptr;
    reply = Authorize(member, watch->context, TryDeadline(deadline_ns));
    if (!reply.answered()) return nullptr;
    watch->stream = member.watch->Watch(&watch->context);
    if (watch->stream->Write(request)) return watch;
    reply = Explain(watch->stream->Finish(), member);
    watch->stream.reset();
    return nullptr;
  }

 private:
  Member& Current() { return *members_[current_ % members_.size()]; }
  int64_t TryDeadline(int64_t deadline_ns) const {
    return std::min(deadline_ns, Now() + options_.try_ms * kNanosPerMilli);
  }

  template <typename Call>
  Reply Try(bool write, int64_t deadline_ns, const Call& call) {
    Member& member = Current();
    int64_t try_ns = TryDeadline(deadline_ns);
    if (Reply reply = Connect(member, try_ns); !reply.answered()) return reply;
    if (write && member.suspect) {
      if (Reply reply = Probe(member, TryDeadline(deadline_ns)); !reply.answered()) return reply;
    }
    // A write that is sent too late to be answered would be one of unknown outcome.
    if (deadline_ns - Now() < kLeastTry_ms * kNanosPerMilli) return NotSent("no time is left");
    return Once(member, TryDeadline(deadline_ns), call);
  }

  Reply NotSent(const char* why) const {
    Reply reply = ExplainEtcdError(GRPC_STATUS_UNAVAILABLE, why, endpoints_.text).reply;
    reply.fate = Fate::kNotSent;
    return reply;
  }

  template <typename Call>
  Reply Once(Member& member, int64_t try_ns, const Call& call) {
    grpc::ClientContext context;
    context.set_deadline(ToGrpc(try_ns));
    if (Reply reply = Authorize(member, context, try_ns); !reply.answered()) return reply;
    grpc::Status status = call(member, context);
    Reply reply = Explain(status, member);
    member.suspect = reply.fate == Fate::kUnknown;
    return reply;
  }

  // Whether a member that was silent answers again. Any answer will do; else nothing was sent.
  Reply Probe(Member& member, int64_t try_ns) {
    pb::RangeRequest request;
    pb::RangeResponse response;
    request.set_key(ClusterPrefix(options_.cluster) + kLineKey);
    request.set_count_only(true);
    Reply reply = Once(member, try_ns, [&](Member&, grpc::ClientContext& context) {
      return member.kv->Range(&context, request, &response);
    });
    if (reply.fate == Fate::kUnknown) reply.fate = Fate::kNotSent;
    return reply;
  }

  Reply Connect(Member& member, int64_t try_ns) {
    int64_t patience_ns = Now() + kDownPatience_ms * kNanosPerMilli;
    for (;;) {
      grpc_connectivity_state state = member.channel->GetState(/*try_to_connect=*/true);
      if (state == GRPC_CHANNEL_READY) return {};
      // A member that is down costs a moment only, where there are others. But it costs that: gRPC
      // connects again only while somebody waits for it.
      bool down = state == GRPC_CHANNEL_TRANSIENT_FAILURE && members_.size() > 1;
      int64_t until_ns = down ? std::min(try_ns, patience_ns) : try_ns;
      if (!member.channel->WaitForStateChange(state, ToGrpc(until_ns))) break;
    }
    ++current_;
    return NotSent("no connection");
  }

  Reply Explain(const grpc::Status& status, Member& member) {
    if (status.ok()) return {};
    EtcdError error =
        ExplainEtcdError(status.error_code(), status.error_message(), endpoints_.text);
    bool other_member = error.reply.fate == Fate::kUnknown || error.reply.fate == Fate::kNotSent ||
                        status.error_code() == grpc::StatusCode::UNAVAILABLE;
    if (other_member && &member == &Current()) ++current_;
    if (error.bad_token) {
      MutexLock lock(mutex_);
      token_.clear();
      no_auth_ = false;
      error.reply.again = !options_.user.empty();
    }
    return error.reply;
  }

  // Gives the call what etcd wants beside it. One thread asks for a token while the others wait.
  Reply Authorize(Member& member, grpc::ClientContext& context, int64_t try_ns) {
    // A member that is cut off from the others says so, at once, and ends its watches.
    context.AddMetadata("hasleader", "true");
    if (options_.user.empty()) return {};
    MutexLock lock(mutex_);
    if (token_.empty() && !no_auth_) {
      pb::AuthenticateRequest request;
      request.set_name(options_.user);
      request.set_password(options_.password);
      pb::AuthenticateResponse response;
      grpc::ClientContext asking;
      asking.set_deadline(ToGrpc(try_ns));
      grpc::Status status = member.auth->Authenticate(&asking, request, &response);
      if (!status.ok()) {
        EtcdError error =
            ExplainEtcdError(status.error_code(), status.error_message(), endpoints_.text);
        if (!error.no_auth) {
          member.suspect = error.reply.fate == Fate::kUnknown;
          if (error.reply.fate == Fate::kUnknown) {
            error.reply.fate = Fate::kNotSent;
            ++current_;
          }
          return error.reply;
        }
        no_auth_ = true;
      }
      token_ = response.token();
    }
    if (!token_.empty()) context.AddMetadata("token", token_);
    return {};
  }

  const EtcdOptions options_;
  const EtcdEndpoints endpoints_;
  const std::vector<std::unique_ptr<Member>> members_;
  std::atomic<size_t> current_{0};

  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  bool no_auth_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdRpc>> MakeEtcdGrpc(const EtcdOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(EtcdEndpoints endpoints, ParseEtcdEndpoints(options.endpoints));
  TILEKV_RETURN_IF_ERROR(CheckClusterName(options.cluster));
  TILEKV_ASSIGN_OR_RETURN(auto credentials, Credentials(options, endpoints.tls));
  std::vector<std::unique_ptr<Member>> members;
  for (const std::string& target : endpoints.targets) {
    members.push_back(MakeMember(target, credentials));
  }
  return std::make_unique<EtcdGrpc>(options, std::move(endpoints), std::move(members));
}

}  // namespace tilekv
