#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "client/remote_channels.h"
#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

// A call that broke is opened again after this; the node gives the session far longer.
constexpr std::chrono::milliseconds kReopenAfter(500);
constexpr std::chrono::milliseconds kLookEvery(50);
constexpr int64_t kNanosPerMilli = 1'000'000;

// Holds the keep-alive call open in a thread of its own, and opens it again when it breaks, until
// the node says that the session is gone.
class RemoteSessionKeeper : public NodeService::SessionKeeper {
 public:
  RemoteSessionKeeper(std::shared_ptr<RemoteChannels> channels, std::string token)
      : channels_(std::move(channels)), token_(std::move(token)) {}

  ~RemoteSessionKeeper() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      if (call_ != nullptr) call_->TryCancel();
      changed_.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
  }

  absl::Status status() override {
    MutexLock lock(mutex_);
    return lost_;
  }

  // Until the node has answered once, in the thread that goes on with it.
  absl::Status Start(const CallContext& context) {
    const int64_t until_nanos = Clock::System()->MonotonicNanos() +
                                channels_->options().progress_timeout_ms * kNanosPerMilli;
    thread_ = std::thread([this] { Run(); });
    MutexLock lock(mutex_);
    while (!began_) {
      if (changed_.WaitFor(mutex_, kLookEvery)) continue;
      TILEKV_RETURN_IF_ERROR(context.Check());
      if (Clock::System()->MonotonicNanos() > until_nanos) {
        return Stalled(fmt::format("node {} did not answer KeepSession within {} ms",
                                   channels_->address(), channels_->options().progress_timeout_ms));
      }
    }
    return first_;
  }

 private:
  struct Stream {
    grpc::ClientContext call;
    std::unique_ptr<grpc::ClientReaderWriter<v1::KeepSessionRequest, v1::KeepSessionResponse>> rw;
  };

  // Until the node has answered once.
  absl::Status Open(Stream& stream) {
    {
      MutexLock lock(mutex_);
      if (stopping_) return MakeError(Reason::kCancelled, "the session is being closed");
      call_ = &stream.call;
    }
    stream.rw = channels_->control().KeepSession(&stream.call);
    v1::KeepSessionRequest request;
    request.set_token(token_);
    v1::KeepSessionResponse response;
    if (stream.rw->Write(request) && stream.rw->Read(&response)) return absl::OkStatus();
    return Close(stream);
  }

  absl::Status Close(Stream& stream) {
    grpc::Status status = stream.rw->Finish();
    MutexLock lock(mutex_);
    call_ = nullptr;
    return FromGrpc(status, stream.call, {}, channels_->address());
  }

  void Run() {
    auto first = std::make_unique<Stream>();
    absl::Status opened = Open(*first);
    {
      MutexLock lock(mutex_);
      began_ = true;
      first_ = opened;
      changed_.SignalAll();
    }
    if (opened.ok()) Keep(std::move(first));
  }

  void Keep(std::unique_ptr<Stream> stream) {
    while (true) {
      if (stream != nullptr) {
        v1::KeepSessionResponse response;
        while (stream->rw->Read(&response)) {
        }
        absl::Status status = Close(*stream);
        stream.reset();
        if (IsLost(status)) return;
      }
      {
        MutexLock lock(mutex_);
        if (!stopping_) changed_.WaitFor(mutex_, kReopenAfter);
        if (stopping_) return;
      }
      auto next = std::make_unique<Stream>();
      absl::Status opened = Open(*next);
      if (opened.ok()) stream = std::move(next);
      if (IsLost(opened)) return;
    }
  }

  // Then nothing can be kept any more, and the session's next call is told.
  bool IsLost(const absl::Status& status) {
    if (GetReason(status) != Reason::kSessionLost) return false;
    MutexLock lock(mutex_);
    lost_ = status;
    return true;
  }

  const std::shared_ptr<RemoteChannels> channels_;
  const std::string token_;
  Mutex mutex_;
  CondVar changed_;
  bool began_ ABSL_GUARDED_BY(mutex_) = false;  // the first try to open is over
  absl::Status first_ ABSL_GUARDED_BY(mutex_);  // how it ended
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;  // to be cancelled
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<NodeService::SessionKeeper>> RemoteKeepSession(
    std::shared_ptr<RemoteChannels> channels, const std::string& token,
    const CallContext& context) {
  auto keeper = std::make_unique<RemoteSessionKeeper>(std::move(channels), token);
  TILEKV_RETURN_IF_ERROR(keeper->Start(context));
  return keeper;
}

}  // namespace tilekv
