#include "kvstore/grpc/blocking_stream.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

std::string TextOf(const grpc::ByteBuffer& message) {
  std::string text;
  std::vector<grpc::Slice> slices;
  for (Bytes piece : PiecesOf(message, slices)) text += AsText(piece);
  return text;
}

}  // namespace

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
    watch.Update([&] {
      reading = false;
      got = ok;
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
};

BlockingStream::BlockingStream(grpc::GenericStub& stub, const char* method, std::string node,
                               int64_t timeout_ms, const CallContext& context)
    : node_(std::move(node)), context_(context), reactor_(std::make_unique<Reactor>()) {
  SetDeadline(context, reactor_->call);
  reactor_->watch.SetStallTimeout(timeout_ms);
  reactor_->call.set_initial_metadata_corked(true);  // it goes with the first message
  stub.PrepareBidiStreamingCall(&reactor_->call, method, grpc::StubOptions(), reactor_.get());
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

bool BlockingStream::Read(grpc::ByteBuffer& message) {
  Reactor& r = *reactor_;
  r.watch.Update([&] { r.reading = true; });
  r.StartRead(&r.incoming);
  if (!r.watch.WaitUntil(context_, [&] { return !r.reading; }) || !r.got) return false;
  message.Swap(&r.incoming);
  r.incoming.Clear();
  return true;
}

bool BlockingStream::Read(std::string& message) {
  grpc::ByteBuffer buffer;
  if (!Read(buffer)) return false;
  message = TextOf(buffer);
  return true;
}

absl::StatusOr<std::optional<std::string>> BlockingStream::ReadLast(const std::string& what) {
  Reactor& r = *reactor_;
  r.watch.Update([&] { r.reading = true; });
  r.StartRead(&r.incoming);
  TILEKV_RETURN_IF_ERROR(Finish(what));
  if (!r.got) return std::nullopt;
  return TextOf(r.incoming);
}

absl::Status BlockingStream::Finish(const std::string& what) {
  finished_ = true;
  reactor_->RemoveHold();
  grpc::Status status = reactor_->watch.Wait(context_);
  if (reactor_->watch.stalled()) {
    return Stalled(fmt::format("node {} made no progress with {} for too long", node_, what));
  }
  return FromGrpc(status, reactor_->call, context_, node_);
}

}  // namespace tilekv
