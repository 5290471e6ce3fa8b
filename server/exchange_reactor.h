// The reactor of streams that are answered while they come. Pulls in gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/mutex.h"
#include "server/receiving_reactor.h"

namespace tilekv {

// The first message says whether little comes. Little is neither counted among the transfers nor
// given a chunk of memory.
class ExchangeReactor
    : public ReceivingReactor<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  // Until its first message has come the stream has one of `small_slots`.
  void Begin(StreamSlots& small_slots) {
    Enter(small_slots, [this] { AskForMessage(); });
  }

 protected:
  using ReceivingReactor::ReceivingReactor;

  struct Opened {
    std::unique_ptr<BulkSink> sink;
    uint64_t data_bytes = 0;  // in the message
    bool is_small = false;
  };
  // What takes the stream that begins with this message; it gets the message itself too.
  virtual absl::StatusOr<Opened> Open(std::span<const Bytes> first) = 0;

  // One reply is sent at a time; the `last` goes together with the end of the call.
  void Reply(const google::protobuf::MessageLite& response, bool last);
  // Whoever sends hears something: nothing where a reply is under way, or the call is over.
  void ReplyIfIdle(const google::protobuf::MessageLite& response);
  void EndCall(const absl::Status& status) override;
  void AskForMessage() override;

 private:
  void OnFirstMessage(bool ok) override;
  void FinishCall(const absl::Status& status) override;
  void OnWriteDone(bool ok) override;
  void GoOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(replies_mutex_);
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(replies_mutex_);

  bool first_is_here_ = false;  // and waits for memory
  Mutex replies_mutex_;
  std::vector<grpc::ByteBuffer> replies_ ABSL_GUARDED_BY(replies_mutex_);
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(replies_mutex_);
  bool writing_ ABSL_GUARDED_BY(replies_mutex_) = false;
  bool over_ ABSL_GUARDED_BY(replies_mutex_) = false;  // nothing may be sent any more
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(replies_mutex_);
};

}  // namespace tilekv
