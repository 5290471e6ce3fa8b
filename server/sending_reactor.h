// The reactor of streams that answer a read: messages go out from the memory that they were read
// into. Pulls in gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "kvstore/base/mutex.h"
#include "server/counted_reactor.h"
#include "server/grpc_calls.h"
#include "server/message_source.h"
#include "server/read_pipeline.h"
#include "server/stream_class.h"

namespace tilekv {

class SendingReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                             public ReadCarrier,
                             public CountedReactor<SendingReactor> {
 public:
  // The reactor of a call that was just made. `source` is what answers it, or why nothing does.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(
      StreamClass streams, grpc::CallbackServerContext& call, const char* name,
      absl::StatusOr<std::unique_ptr<MessageSource>> source);

  SendingReactor(StreamClass streams, grpc::CallbackServerContext& call, const char* name);

 private:
  void Begin(absl::StatusOr<std::unique_ptr<MessageSource>> source);
  void Granted(absl::Status granted);
  void Send(ReadMessage message, bool more_at_once) override;
  void FinishCall(const absl::Status& status) override { EndCall(status); }
  void EndCall(const absl::Status& status);
  void BudgetWaited(int64_t nanos) override { served_.BudgetWaited(nanos); }
  void BreakOff() override { served_.BreakOff(); }
  void WaitsForClient(bool waits, uint64_t moved_bytes = 0);
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { LetGo(); }

  const StreamClass streams_;
  ServedCall served_;
  std::unique_ptr<MessageSource> source_;  // until the call has its place
  // Set at once, where the request can be right.
  std::shared_ptr<ReadPipeline> pipeline_;
  std::optional<StreamPlace> place_;
  bool begun_to_send_ = false;  // of the one write in progress
  grpc::ByteBuffer outgoing_;
  Mutex mutex_;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;  // ended before it began
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tilekv
