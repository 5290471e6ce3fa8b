#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"
#include "server/grpc_calls.h"

namespace tilekv {
namespace {

// How long a client may take to say that it heard the compares of its batch.
constexpr std::chrono::seconds kHeardWithin(10);

// 1. The request comes; the node fixes the compares, which are the first reply.
// 2. The client says that it has heard them, by another message. Only then the node writes: a
// client
//    that did not hear them may begin anew without an unknown outcome. A stream that ends before,
//    or says nothing for too long, ends the call and nothing is written.
// 3. The outcomes are the second reply.
class BatchPutReactor final
    : public grpc::ServerBidiReactor<v1::BatchPutRequest, v1::BatchPutResponse> {
 public:
  BatchPutReactor(ServiceContext& service, grpc::CallbackServerContext& call)
      : service_(service), served_(service, call, "BatchPut") {
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (std::exchange(asked_, true)) {
      MutexLock lock(mutex_);
      (ok ? heard_ : gone_) = true;
      changed_.SignalAll();
    } else if (ok) {
      absl::StatusOr<CallGate::Pass> pass = service_.calls.Enter(request_.ByteSizeLong());
      if (!pass.ok()) return Finish(served_.End(pass.status()));
      pass_ = *std::move(pass);
      service_.exchanges.Post([this] { Run(); });
    } else {
      Finish(served_.End(MakeError(Reason::kInvalidArgument, "the stream has no request")));
    }
  }

  void Run() {
    served_.QueueEnded();
    absl::Status wanted = served_.context().Check();
    if (!wanted.ok()) return Finish(served_.End(wanted));
    absl::StatusOr<v1::BatchPutResponse> result = service_.node.BatchPut(
        request_, [this](const std::vector<uint64_t>& compares) { return Tell(compares); },
        served_.context());
    {
      MutexLock lock(mutex_);
      while (writing_) changed_.Wait(mutex_);
    }
    if (!result.ok()) return Finish(served_.End(result.status()));
    outcomes_ = *std::move(result);
    outcomes_.clear_compares();
    StartWriteAndFinish(&outcomes_, grpc::WriteOptions(), served_.End(absl::OkStatus()));
  }

  // OK once the client has heard the compares.
  absl::Status Tell(const std::vector<uint64_t>& fixed) {
    compares_.mutable_compares()->Assign(fixed.begin(), fixed.end());
    {
      MutexLock lock(mutex_);
      writing_ = true;
    }
    StartRead(&again_);
    StartWrite(&compares_);
    served_.WaitsForClient(true);
    MutexLock lock(mutex_);
    auto until = std::chrono::steady_clock::now() + kHeardWithin;
    while (!heard_ && !gone_ && std::chrono::steady_clock::now() < until) {
      changed_.WaitFor(mutex_, kHeardWithin);
    }
    served_.WaitsForClient(false);
    if (heard_) return absl::OkStatus();
    if (gone_) {
      return MakeError(Reason::kCancelled,
                       "the stream ended before its client said, by a second message, that it has "
                       "the compares; nothing was written");
    }
    return MakeError(
        Reason::kDeadlineExceeded,
        fmt::format("the client did not say within {} s, by a second message, that it has the "
                    "compares; nothing was written",
                    kHeardWithin.count()));
  }

  void OnWriteDone(bool) override {
    MutexLock lock(mutex_);
    writing_ = false;
    changed_.SignalAll();
  }
  void OnCancel() override { served_.Cancel(); }
  void OnDone() override { delete this; }

  ServiceContext& service_;
  ServedCall served_;
  v1::BatchPutRequest request_;
  v1::BatchPutRequest again_;
  v1::BatchPutResponse compares_;
  v1::BatchPutResponse outcomes_;
  CallGate::Pass pass_;
  bool asked_ = false;  // used by the one read in progress
  Mutex mutex_;
  CondVar changed_;
  bool heard_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more comes from the client
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
};

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
    MutexLock lock(mutex_);
    if (std::exchange(ended_, true)) return;
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

grpc::ServerBidiReactor<v1::BatchPutRequest, v1::BatchPutResponse>* ServeBatchPut(
    ServiceContext& service, grpc::CallbackServerContext& call) {
  return new BatchPutReactor(service, call);
}

grpc::ServerBidiReactor<v1::KeepSessionRequest, v1::KeepSessionResponse>* ServeKeepSession(
    ServiceContext& service, grpc::CallbackServerContext& call) {
  return new KeepSessionReactor(service, call);
}

}  // namespace tilekv
