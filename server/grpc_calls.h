// The gRPC adapters: reactors that carry calls between gRPC's threads and the node. The only header
// here that pulls in gRPC.
//
// Every reactor deletes itself when gRPC says that its call is over.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "kvstore/base/call_context.h"
#include "server/service_context.h"
#include "tilekv/v1/service.grpc.pb.h"

namespace tilekv {

grpc::Status ToGrpc(const absl::Status& status);

// One call being served: its deadline, whether its caller is still there, and its figures.
class ServedCall {
 public:
  ServedCall(ServiceContext& service, grpc::CallbackServerContext& call, const char* name);
  // For the node; Cancel reaches every copy.
  const CallContext& context() const { return context_; }
  void Cancel() { context_.cancel->Cancel(); }
  // Counts the call, and gives what gRPC is to send.
  grpc::Status End(const absl::Status& status);

 private:
  ServiceContext& service_;
  const char* const name_;
  const int64_t began_nanos_;
  CallContext context_;
};

// OVERLOADED when the node serves as many bulk calls as its memory allows. Held while one is
// served.
class StreamSlot {
 public:
  explicit StreamSlot(ServiceContext& service);
  ~StreamSlot();
  absl::Status status() const;

 private:
  ServiceContext& service_;
  const bool granted_;
};

grpc::ServerReadReactor<grpc::ByteBuffer>* ServePutObject(ServiceContext& service,
                                                          grpc::CallbackServerContext& call,
                                                          grpc::ByteBuffer* response);
grpc::ServerWriteReactor<grpc::ByteBuffer>* ServeReadObjects(ServiceContext& service,
                                                             grpc::CallbackServerContext& call,
                                                             const grpc::ByteBuffer* request);
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ServePutValue(
    ServiceContext& service, grpc::CallbackServerContext& call);
grpc::ServerBidiReactor<v1::BatchPutRequest, v1::BatchPutResponse>* ServeBatchPut(
    ServiceContext& service, grpc::CallbackServerContext& call);
grpc::ServerBidiReactor<v1::KeepSessionRequest, v1::KeepSessionResponse>* ServeKeepSession(
    ServiceContext& service, grpc::CallbackServerContext& call);

// The whole service; `service` outlives it.
std::unique_ptr<grpc::Service> NewNodeService(ServiceContext& service);

}  // namespace tilekv
