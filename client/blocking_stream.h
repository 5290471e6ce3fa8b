// A bidirectional call that one thread drives by blocking steps, for exchanges whose sender must
// hear before it goes on. Private to client/.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "client/remote_channels.h"

namespace tilekv {

// Used by one thread. Destroyed before Finish, it cancels the call. Steps give up when the context
// is cancelled or nothing moves for too long; Finish then says why.
class BlockingStream {
 public:
  BlockingStream(RemoteChannels& channels, const char* method, const CallContext& context);
  ~BlockingStream();

  // Takes the message once the one before it has left. False: the call is over.
  bool Write(const grpc::ByteBuffer& message, bool last);
  // The next message; false at the end.
  bool Read(std::string& message);
  // From here on so much time may pass without anything moving.
  void SetStallTimeout(int64_t timeout_ms);
  // Waits for the end. `what` is named when the node stalled.
  absl::Status Finish(const std::string& what);
  // Read and Finish in one wait: the last message, where the call ends well. None when it ended
  // without one.
  absl::StatusOr<std::optional<std::string>> ReadLast(const std::string& what);

 private:
  class Reactor;
  RemoteChannels& channels_;
  const CallContext context_;
  const std::unique_ptr<Reactor> reactor_;
  bool finished_ = false;
};

}  // namespace tilekv
