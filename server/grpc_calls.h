// The gRPC adapters: reactors that carry calls between gRPC's threads and the node. This header,
// those of the reactors (*_reactor.h) and those of the other nodes (grpc_peer*.h, but for
// grpc_peers.h) pull in gRPC, and no other here does.
//
// Every reactor deletes itself when gRPC says that its call is over.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/clock.h"
#include "server/service_context.h"
#include "tilekv/v1/service.grpc.pb.h"

namespace tilekv {

grpc::Status ToGrpc(const absl::Status& status);

// One call being served: its deadline, whether its caller is still there, and its figures.
class ServedCall {
 public:
  ServedCall(ServerMetrics& metrics, SlowCalls& slow_calls, grpc::CallbackServerContext& call,
             const char* name);
  ServedCall(ServiceContext& service, grpc::CallbackServerContext& call, const char* name)
      : ServedCall(service.metrics, service.slow_calls, call, name) {}
  // For the node; Cancel reaches every copy.
  const CallContext& context() const { return context_; }
  void Cancel() { context_.cancel->Cancel(); }
  std::string peer() const { return call_.peer(); }
  // Ends the call without its client's help. Before End.
  void BreakOff() { call_.TryCancel(); }
  // Counts the call, and gives what gRPC is to send.
  grpc::Status End(const absl::Status& status);

  // What is told of it, should it be slow.
  void AddBytes(uint64_t bytes) { bytes_ += bytes; }
  void QueueEnded() { queue_nanos_ = NowNanos() - began_nanos_; }
  void BudgetWaited(int64_t nanos) { budget_nanos_ += nanos; }
  // From now on it waits for its client, or no more. One wait at a time; the longest is kept.
  void WaitsForClient(bool waits);
  // It lasts as long as its client likes: it is never slow.
  void set_open_ended() { open_ended_ = true; }

 private:
  static int64_t NowNanos() { return Clock::System()->MonotonicNanos(); }
  void TellIfSlow(int64_t total_nanos, const absl::Status& status);

  ServerMetrics& metrics_;
  SlowCalls& slow_calls_;
  grpc::CallbackServerContext& call_;
  const char* const name_;
  const int64_t began_nanos_;
  CallContext context_;
  bool open_ended_ = false;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<int64_t> queue_nanos_{0};
  std::atomic<int64_t> budget_nanos_{0};
  std::atomic<int64_t> client_nanos_{0};
  std::atomic<int64_t> longest_client_nanos_{0};
  std::atomic<int64_t> client_since_nanos_{0};  // 0: it does not wait for it
};

// The place of one bulk call, asked for, waited for and held. Leaves when it is destroyed.
class StreamPlace {
 public:
  explicit StreamPlace(StreamSlots& slots) : slots_(slots), ticket_(slots.NewTicket()) {}
  ~StreamPlace() { slots_.Leave(ticket_); }
  StreamPlace(const StreamPlace&) = delete;
  StreamPlace& operator=(const StreamPlace&) = delete;

  void Enter(StreamSlots::Caller caller, StreamSlots::End end,
             std::function<void(absl::Status)> granted) {
    slots_.Enter(ticket_, std::move(caller), std::move(end), std::move(granted));
  }
  bool CancelWait() { return slots_.Cancel(ticket_); }
  void WaitsForClient(bool waits, uint64_t moved_bytes) {
    slots_.WaitsForClient(ticket_, waits, moved_bytes);
  }

 private:
  StreamSlots& slots_;
  const uint64_t ticket_;
};

grpc::ServerReadReactor<grpc::ByteBuffer>* ServePutObject(ServiceContext& service,
                                                          grpc::CallbackServerContext& call,
                                                          grpc::ByteBuffer* response);
grpc::ServerWriteReactor<grpc::ByteBuffer>* ServeReadObjects(ServiceContext& service,
                                                             grpc::CallbackServerContext& call,
                                                             const grpc::ByteBuffer* request);
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ServePutValue(
    ServiceContext& service, grpc::CallbackServerContext& call);
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ServeBatchPut(
    ServiceContext& service, grpc::CallbackServerContext& call);
grpc::ServerBidiReactor<v1::KeepSessionRequest, v1::KeepSessionResponse>* ServeKeepSession(
    ServiceContext& service, grpc::CallbackServerContext& call);

// The whole service; `service` outlives it.
std::unique_ptr<grpc::Service> NewNodeService(ServiceContext& service);

}  // namespace tilekv
