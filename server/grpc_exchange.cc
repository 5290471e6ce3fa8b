#include <memory>
#include <string>
#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"
#include "server/grpc_calls.h"

namespace tilekv {
namespace {

// The session lives while the call is open. Each request is answered; all are of one session. The
// call ends when its client, or the node, goes.
class KeepSessionReactor final
    : public grpc::ServerBidiReactor<v1::KeepSessionRequest, v1::KeepSessionResponse> {
 public:
  KeepSessionReactor(ServiceContext& service, grpc::CallbackServerContext& call)
      : service_(service), served_(service, call, "KeepSession") {
    served_.set_open_ended();
    service_.open_calls.Add(
        this, [this] { End(MakeError(Reason::kNodeUnavailable, "the node is being stopped")); });
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    service_.short_calls.Post([this] { Keep(); });
  }

  void Keep() {
    if (keeper_ == nullptr) {
      auto keeper = service_.node.KeepSession(request_.token());
      if (!keeper.ok()) return End(keeper.status());
      keeper_ = *std::move(keeper);
      token_ = request_.token();
    } else if (request_.token() != token_) {
      return End(MakeError(Reason::kInvalidArgument, "a call keeps one session"));
    }
    response_.set_lease_s(kSessionLease_s);
    MutexLock lock(mutex_);
    if (!ended_) StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    MutexLock lock(mutex_);
    if (!ended_) StartRead(&request_);
  }

  void End(const absl::Status& status) {
    {
      MutexLock lock(mutex_);
      if (std::exchange(ended_, true)) return;
    }
    // Not under the lock, which goes with the call.
    Finish(served_.End(status));
  }
  void OnCancel() override { served_.Cancel(); }
  // Letting go of the session writes to the catalog: not in a gRPC thread.
  void OnDone() override {
    service_.open_calls.Remove(this);
    service_.short_calls.Post([this] { delete this; });
  }

  // One step at a time: a read, then the node, then a write.
  ServiceContext& service_;
  ServedCall served_;
  v1::KeepSessionRequest request_;
  v1::KeepSessionResponse response_;
  std::string token_;
  std::unique_ptr<NodeService::SessionKeeper> keeper_;
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerBidiReactor<v1::KeepSessionRequest, v1::KeepSessionResponse>* ServeKeepSession(
    ServiceContext& service, grpc::CallbackServerContext& call) {
  return new KeepSessionReactor(service, call);
}

}  // namespace tilekv
