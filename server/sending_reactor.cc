#include "server/sending_reactor.h"

#include <string>
#include <utility>

namespace tilekv {
namespace {

void DropChunk(void* chunk) { delete static_cast<std::shared_ptr<ReadChunk>*>(chunk); }

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* SendingReactor::Start(
    StreamClass streams, grpc::CallbackServerContext& call, const char* name,
    absl::StatusOr<std::unique_ptr<MessageSource>> source) {
  auto reactor = std::make_shared<SendingReactor>(std::move(streams), call, name);
  reactor->KeepUntilDone();
  reactor->Begin(std::move(source));
  return reactor.get();
}

SendingReactor::SendingReactor(StreamClass streams, grpc::CallbackServerContext& call,
                               const char* name)
    : streams_(std::move(streams)), served_(streams_.metrics, streams_.slow_calls, call, name) {}

void SendingReactor::Begin(absl::StatusOr<std::unique_ptr<MessageSource>> source) {
  if (!source.ok()) return EndCall(source.status());
  source_ = *std::move(source);
  pipeline_ = std::make_shared<ReadPipeline>(this, &streams_.budget, &streams_.executor);
  place_.emplace(streams_.slots);
  place_->Enter(
      {StreamSlots::Kind::kRead, served_.peer()},
      [pipeline = pipeline_](const absl::Status& why) { pipeline->BreakOff(why); },
      [self = shared_from_this()](const absl::Status& granted) { self->Granted(granted); });
}

// Whoever comes second of this and OnCancel ends a call that was cancelled in between.
void SendingReactor::Granted(absl::Status granted) {
  served_.QueueEnded();
  {
    MutexLock lock(mutex_);
    begun_ = true;
    if (cancelled_ && granted.ok()) granted = CallerGone();
    over_ = !granted.ok();
  }
  if (!granted.ok()) return EndCall(granted);
  pipeline_->Start(std::move(source_));
}

void SendingReactor::Send(ReadMessage message, bool more_at_once) {
  streams_.metrics.SentBytes(message.data.size());
  served_.AddBytes(message.data.size());
  grpc::Slice slices[2] = {grpc::Slice(message.head), grpc::Slice()};
  size_t count = 1;
  if (!message.data.empty()) {
    // gRPC does not write through a slice that it sends. The chunk goes back with the last slice.
    auto* chunk = new std::shared_ptr<ReadChunk>(std::move(message.chunk));
    slices[count++] = grpc::Slice(const_cast<uint8_t*>(message.data.data()), message.data.size(),
                                  &DropChunk, chunk);
  }
  outgoing_ = grpc::ByteBuffer(slices, count);
  grpc::WriteOptions options;
  // The first goes together with the call's initial metadata: held back, nothing of it is ever
  // written until something else is, and the second waits for it.
  bool first = !std::exchange(begun_to_send_, true);
  if (more_at_once && !first) options.set_buffer_hint();
  WaitsForClient(true);
  StartWrite(&outgoing_, options);
}

void SendingReactor::EndCall(const absl::Status& status) {
  if (TakeEnd()) Finish(served_.End(status));
}

void SendingReactor::WaitsForClient(bool waits, uint64_t moved_bytes) {
  place_->WaitsForClient(waits, moved_bytes);
  served_.WaitsForClient(waits);
}

void SendingReactor::OnWriteDone(bool ok) {
  WaitsForClient(false, ok ? outgoing_.Length() : 0);
  outgoing_.Clear();
  pipeline_->Sent(ok);
}

void SendingReactor::OnCancel() {
  served_.Cancel();
  if (!place_.has_value()) return;  // it ended at once
  if (place_->CancelWait()) return EndCall(CallerGone());
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (!begun_ || over_) return;
  }
  pipeline_->Cancel();
}

}  // namespace tilekv
