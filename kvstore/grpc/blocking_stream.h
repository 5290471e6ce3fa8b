// A bidirectional call that one thread drives by blocking steps, for exchanges whose sender must
// hear before it goes on. Pulls in gRPC.
#pragma once

#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <optional>
#include <string>

#include "kvstore/grpc/grpc_call.h"

namespace tilekv {

// Used by one thread. Destroyed before Finish, it cancels the call. Steps give up when the context
// is cancelled or nothing moves for too long; Finish then says why.
class BlockingStream {
 public:
  // `node` (an address) is named in errors. Nothing may stand still for longer than the timeout.
  BlockingStream(grpc::GenericStub& stub, const char* method, std::string node, int64_t timeout_ms,
                 const CallContext& context);
  ~BlockingStream();

  // Takes the message once the one before it has left. False: the call is over.
  bool Write(const grpc::ByteBuffer& message, bool last);
  // The next message; false at the end.
  bool Read(std::string& message);
  bool Read(grpc::ByteBuffer& message);
  // From here on so much time may pass without anything moving.
  void SetStallTimeout(int64_t timeout_ms);
  // Waits for the end. `what` is named when the node stalled.
  absl::Status Finish(const std::string& what);
  // Read and Finish in one wait: the last message, where the call ends well. None when it ended
  // without one.
  absl::StatusOr<std::optional<std::string>> ReadLast(const std::string& what);

 private:
  class Reactor;
  const std::string node_;
  const CallContext context_;
  const std::unique_ptr<Reactor> reactor_;
  bool finished_ = false;
};

}  // namespace tilekv
