// The reactor of a call with one request and one reply. Pulls in gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "server/call_gate.h"
#include "server/grpc_calls.h"

namespace tilekv {

template <typename Response>
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  UnaryReactor(ServerMetrics& metrics, SlowCalls& slow_calls, grpc::CallbackServerContext& call,
               const char* name)
      : name_(name), served_(metrics, slow_calls, call, name) {}
  UnaryReactor(ServiceContext& service, grpc::CallbackServerContext& call, const char* name)
      : UnaryReactor(service.metrics, service.slow_calls, call, name) {}

  // `work` gives the reply, on the executor, where `gate` lets the call in.
  template <typename Work>
  void Start(CallGate& gate, Executor& executor, uint64_t request_bytes, Work work,
             Response* response) {
    absl::StatusOr<CallGate::Pass> pass = gate.Enter(request_bytes);
    if (!pass.ok()) return End(pass.status());
    pass_ = *std::move(pass);
    executor.Post([this, work = std::move(work), response] {
      served_.QueueEnded();
      absl::Status status = served_.context().Check();
      if (status.ok()) {
        absl::StatusOr<Response> result = work(served_.context());
        status = result.status();
        if (result.ok()) *response = *std::move(result);
        if (status.ok()) status = CheckReply(response->ByteSizeLong());
      }
      End(status);
    });
  }

 private:
  absl::Status CheckReply(uint64_t bytes) const {
    if (bytes <= kMaxReceiveBytes) return absl::OkStatus();
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("the reply to {} would be {}; at most {} are sent. Ask for less "
                                 "at once",
                                 name_, FormatSize(bytes), FormatSizeShort(kMaxReceiveBytes)));
  }
  void End(const absl::Status& status) { Finish(served_.End(status)); }
  void OnCancel() override { served_.Cancel(); }
  void OnDone() override { delete this; }

  const char* const name_;
  ServedCall served_;
  CallGate::Pass pass_;
};

}  // namespace tilekv
