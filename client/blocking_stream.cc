#include "client/blocking_stream.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

class BlockingStream::Reactor : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Reactor() : watch(&call) {}

  void OnWriteDone(bool ok) override {
    watch.Update([&] {
      writing = false;
      broken = broken || !ok;
    });
  }
  void OnReadDone(bool ok) override {
    std::string text;
    if (ok) {
      std::vector<grpc::Slice> slices;
      for (Bytes piece : PiecesOf(incoming, slices)) text += AsText(piece);
    }
    watch.Update([&] {
      reading = false;
      got = ok;
      message = std::move(text);
    });
  }
  void OnDone(const grpc::Status& status) override { watch.Done(status); }

  grpc::ClientContext call;
  grpc::ByteBuffer outgoing;
  grpc::ByteBuffer incoming;
  CallWatch watch;
  // Changed by watch.Update.
  bool writing = false;
  bool broken = false;
  bool reading = false;
  bool got = false;
  std::string message;
};

BlockingStream::BlockingStream(RemoteChannels& channels, const char* method,
                               const CallContext& context)
    : channels_(channels), context_(context), reactor_(std::make_unique<Reactor>()) {
  SetDeadline(context, reactor_->call);
  reactor_->watch.SetStallTimeout(channels.options().progress_timeout_ms);
  reactor_->call.set_initial_metadata_corked(true);  // it goes with the first message
  channels.NextBulk().PrepareBidiStreamingCall(&reactor_->call, method, grpc::StubOptions(),
                                               reactor_.get());
  reactor_->AddHold();  // steps come from outside of gRPC's threads
  reactor_->StartCall();
}

BlockingStream::~BlockingStream() {
  if (finished_) return;
  reactor_->call.TryCancel();
  reactor_->RemoveHold();
  reactor_->watch.Wait({});
}

void BlockingStream::SetStallTimeout(int64_t timeout_ms) {
  reactor_->watch.SetStallTimeout(timeout_ms);
}

bool BlockingStream::Write(const grpc::ByteBuffer& message, bool last) {
  Reactor& r = *reactor_;
  if (!r.watch.WaitUntil(context_, [&] { return !r.writing; }) || r.broken) return false;
  r.outgoing = message;
  r.watch.Update([&] { r.writing = true; });
  if (last) {
    r.StartWriteLast(&r.outgoing, grpc::WriteOptions());
  } else {
    r.StartWrite(&r.outgoing);
  }
  return true;
}

bool BlockingStream::Read(std::string& message) {
  Reactor& r = *reactor_;
  r.watch.Update([&] { r.reading = true; });
  r.StartRead(&r.incoming);
  if (!r.watch.WaitUntil(context_, [&] { return !r.reading; }) || !r.got) return false;
  message = std::move(r.message);
  return true;
}

absl::StatusOr<std::optional<std::string>> BlockingStream::ReadLast(const std::string& what) {
  Reactor& r = *reactor_;
  r.watch.Update([&] { r.reading = true; });
  r.StartRead(&r.incoming);
  TILEKV_RETURN_IF_ERROR(Finish(what));
  if (!r.got) return std::nullopt;
  return std::move(r.message);
}

absl::Status BlockingStream::Finish(const std::string& what) {
  finished_ = true;
  reactor_->RemoveHold();
  grpc::Status status = reactor_->watch.Wait(context_);
  if (reactor_->watch.stalled()) {
    return Stalled(
        fmt::format("node {} made no progress with {} for too long", channels_.address(), what));
  }
  return FromGrpc(status, reactor_->call, context_, channels_.address());
}

}  // namespace tilekv
