// What the reactors of streams have in common: how long they live, and who ends their calls. Pulls
// in gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "kvstore/base/status.h"

namespace tilekv {

inline grpc::ByteBuffer ToBuffer(const google::protobuf::MessageLite& message) {
  grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

inline absl::Status CallerGone() { return MakeError(Reason::kCancelled, "the caller is gone"); }

// A call keeps its reactor until gRPC is done with it; whatever waits in a queue keeps it too,
// since a cancelled call ends while its work, or its place, is still on its way. What comes then
// finds that the call has ended.
template <typename Self>
class CountedReactor : public std::enable_shared_from_this<Self> {
 public:
  // Once, before anything else.
  void KeepUntilDone() { self_ = this->shared_from_this(); }

 protected:
  void LetGo() { auto last = std::move(self_); }
  // True for the first who wants to end the call.
  bool TakeEnd() { return !ended_.exchange(true); }

 private:
  std::shared_ptr<Self> self_;
  std::atomic<bool> ended_{false};
};

}  // namespace tilekv
