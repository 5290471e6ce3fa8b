#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/bulk_frame.h"
#include "server/grpc_calls.h"
#include "server/put_sinks.h"
#include "server/read_pipeline.h"
#include "server/small_receiver.h"

namespace tilekv {
namespace {

std::vector<Bytes> PiecesOf(const grpc::ByteBuffer& message, std::vector<grpc::Slice>& slices) {
  slices.clear();
  std::vector<Bytes> pieces;
  if (!message.Dump(&slices).ok()) return pieces;
  pieces.reserve(slices.size());
  for (const grpc::Slice& slice : slices) pieces.emplace_back(slice.begin(), slice.size());
  return pieces;
}

grpc::ByteBuffer ToBuffer(const google::protobuf::MessageLite& message) {
  grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// It is held while its call waits for a place.
absl::Status CheckFirstMessage(uint64_t data_bytes) {
  if (data_bytes <= kSmallValueBytes) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("the first message of a put brings {} of data; it may bring {}, "
                               "the others more",
                               FormatSize(data_bytes), FormatSize(kSmallValueBytes)));
}

absl::Status CallerGone() { return MakeError(Reason::kCancelled, "the caller is gone"); }

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

// What the streams that receive have in common. Reactor is one of gRPC's with StartRead.
template <typename Reactor>
class ReceivingReactor : public Reactor,
                         public BulkCarrier,
                         public CountedReactor<ReceivingReactor<Reactor>> {
 protected:
  ReceivingReactor(ServiceContext& service, grpc::CallbackServerContext& call, const char* name)
      : service_(service), served_(service, call, name) {}

  // Calls `start` once there is a place among `slots`; the place that it has is given back.
  void Enter(StreamSlots& slots, std::function<void()> start) {
    auto place = std::make_shared<StreamPlace>(slots);
    std::shared_ptr<StreamPlace> before;
    {
      MutexLock lock(mutex_);
      before = std::exchange(place_, place);
    }
    before.reset();  // outside of the lock: others may get their place by it
    place->Enter(
        {StreamSlots::Kind::kPut, served_.peer()},
        [weak = this->weak_from_this()](const absl::Status& why) {
          if (auto self = weak.lock()) self->BreakOff(why);
        },
        [self = this->shared_from_this(), start = std::move(start)](const absl::Status& granted) {
          self->served_.QueueEnded();
          if (!granted.ok()) return self->EndCall(granted);
          start();
        });
    bool cancelled = false;
    {
      MutexLock lock(mutex_);
      cancelled = cancelled_;
    }
    if (cancelled) GiveUp();
  }
  // False: the call was broken off, nothing more is to be done.
  bool SetReceiver(std::shared_ptr<StreamReceiver> receiver) {
    MutexLock lock(mutex_);
    if (broken_off_) return false;
    receiver_ = std::move(receiver);
    return true;
  }
  void ServeTransfer(std::unique_ptr<BulkSink> sink) {
    auto receiver = std::make_shared<BulkReceiver>(this, std::move(sink), &service_.client_stream,
                                                   service_.pool, &service_.writes);
    if (SetReceiver(receiver)) Enter(service_.slots, [receiver] { receiver->Start(); });
  }

  // A message, or the end, where there is no receiver yet.
  virtual void OnFirstMessage(bool) {}
  std::shared_ptr<StreamReceiver> receiver() {
    MutexLock lock(mutex_);
    return receiver_;
  }
  void EndCall(const absl::Status& status) {
    if (this->TakeEnd()) this->Finish(served_.End(status));
  }

  void BudgetWaited(int64_t nanos) override { served_.BudgetWaited(nanos); }
  void AskForMessage() override {
    slices_.clear();
    incoming_.Clear();
    WaitsForClient(true);
    this->StartRead(&incoming_);
  }
  void OnReadDone(bool ok) override {
    WaitsForClient(false, ok ? incoming_.Length() : 0);
    if (ok) {
      service_.metrics.ReceivedBytes(incoming_.Length());
      served_.AddBytes(incoming_.Length());
    }
    auto receiver = this->receiver();
    if (receiver == nullptr) return OnFirstMessage(ok);
    if (!ok) return receiver->Ended();
    receiver->Received(PiecesOf(incoming_, slices_));
  }
  void OnCancel() override {
    served_.Cancel();
    {
      MutexLock lock(mutex_);
      cancelled_ = true;
    }
    GiveUp();
  }
  void OnDone() override { this->LetGo(); }

  ServiceContext& service_;
  ServedCall served_;
  // Of whoever reads.
  grpc::ByteBuffer incoming_;
  std::vector<grpc::Slice> slices_;

 private:
  std::shared_ptr<StreamPlace> CurrentPlace() {
    MutexLock lock(mutex_);
    return place_;
  }
  void GiveUp() {
    auto place = CurrentPlace();
    if (place != nullptr && place->CancelWait()) return EndCall(CallerGone());
    // Without one, the read in progress ends.
    if (auto receiver = this->receiver(); receiver != nullptr) receiver->Cancel();
  }
  // Its place is needed.
  void BreakOff(const absl::Status& why) {
    std::shared_ptr<StreamReceiver> receiver;
    {
      MutexLock lock(mutex_);
      receiver = receiver_;
      broken_off_ = receiver == nullptr;
    }
    if (receiver == nullptr) return EndCall(why);
    receiver->Fail(why);
  }
  void WaitsForClient(bool waits, uint64_t moved_bytes = 0) {
    auto place = CurrentPlace();
    if (place != nullptr) place->WaitsForClient(waits, moved_bytes);
    served_.WaitsForClient(waits);
  }

  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_off_ ABSL_GUARDED_BY(mutex_) = false;  // before there was a receiver
  std::shared_ptr<StreamReceiver> receiver_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<StreamPlace> place_ ABSL_GUARDED_BY(mutex_);
};

class PutObjectReactor final : public ReceivingReactor<grpc::ServerReadReactor<grpc::ByteBuffer>> {
 public:
  PutObjectReactor(ServiceContext& service, grpc::CallbackServerContext& call)
      : ReceivingReactor(service, call, "PutObject") {}

  void Begin(grpc::ByteBuffer* response) {
    ServeTransfer(
        std::make_unique<PutObjectSink>(service_.node, served_.context(), [response](bool stored) {
          v1::PutObjectResponse answer;
          answer.set_stored(stored);
          *response = ToBuffer(answer);
        }));
  }

 private:
  void FinishCall(const absl::Status& status) override { EndCall(status); }
};

class PutValueReactor final
    : public ReceivingReactor<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  PutValueReactor(ServiceContext& service, grpc::CallbackServerContext& call)
      : ReceivingReactor(service, call, "PutValue") {}

  // Until its first message has come a put counts among the small ones.
  void Begin() {
    Enter(service_.small_puts, [this] { AskForMessage(); });
  }

 private:
  // A small value is neither counted among the transfers nor given a chunk of memory.
  void OnFirstMessage(bool ok) override {
    v1::PutValueRequest first;
    std::vector<Bytes> data;
    absl::Status status = ok ? DecodeBulk(PiecesOf(incoming_, slices_), first, data)
                             : MakeError(Reason::kInvalidArgument, "the stream has no message");
    if (status.ok()) status = CheckFirstMessage(TotalBytes(data));
    if (!status.ok()) return EndCall(status);
    auto sink = std::make_unique<PutValueSink>(
        service_.node, served_.context(),
        [this](const v1::PutValueResponse& response, bool last) { Reply(response, last); });
    const v1::PutValueHeader& header = first.header();
    bool small = header.has_length() && header.length() <= kSmallValueBytes && !header.has_root();
    if (small) {
      auto receiver = std::make_shared<SmallReceiver>(this, std::move(sink), &service_.writes);
      if (SetReceiver(receiver)) receiver->Received(PiecesOf(incoming_, slices_));
    } else {
      first_is_here_ = true;
      ServeTransfer(std::move(sink));
    }
  }
  void AskForMessage() override {
    if (!std::exchange(first_is_here_, false)) return ReceivingReactor::AskForMessage();
    // Not at once: whoever asks holds a lock.
    service_.writes.Post(
        [self = shared_from_this(), this] { receiver()->Received(PiecesOf(incoming_, slices_)); });
  }

  // One write at a time; the last goes together with the end of the call.
  void Reply(const v1::PutValueResponse& response, bool last) {
    MutexLock lock(replies_mutex_);
    replies_.push_back(ToBuffer(response));
    if (!last) GoOn();
  }
  void FinishCall(const absl::Status& status) override {
    MutexLock lock(replies_mutex_);
    end_ = status;
    GoOn();
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(replies_mutex_);
    writing_ = false;
    if (!ok) replies_.clear();
    GoOn();
  }
  void GoOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(replies_mutex_) {
    if (writing_) return;
    if (replies_.empty()) {
      if (end_.has_value()) EndCall(*end_);
      return;
    }
    outgoing_ = replies_.front();
    replies_.erase(replies_.begin());
    if (replies_.empty() && end_.has_value() && end_->ok()) {
      if (TakeEnd()) {
        StartWriteAndFinish(&outgoing_, grpc::WriteOptions(), served_.End(*end_));
      }
      return;
    }
    writing_ = true;
    StartWrite(&outgoing_);
  }

  bool first_is_here_ = false;  // and waits for memory
  Mutex replies_mutex_;
  std::vector<grpc::ByteBuffer> replies_ ABSL_GUARDED_BY(replies_mutex_);
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(replies_mutex_);
  bool writing_ ABSL_GUARDED_BY(replies_mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(replies_mutex_);
};

void DropChunk(void* chunk) { delete static_cast<std::shared_ptr<ReadChunk>*>(chunk); }

class ReadReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                          public ReadCarrier,
                          public CountedReactor<ReadReactor> {
 public:
  ReadReactor(ServiceContext& service, grpc::CallbackServerContext& call)
      : service_(service), served_(service, call, "ReadObjects") {}

  void Begin(const grpc::ByteBuffer& request) {
    auto producer = MakeProducer(request);
    if (!producer.ok()) return EndCall(producer.status());
    producer_ = *std::move(producer);
    const bool is_short = producer_->is_short();
    pipeline_ = std::make_shared<ReadPipeline>(
        this, is_short ? &service_.short_read : &service_.client_read, &service_.reads);
    place_.emplace(is_short ? service_.short_reads : service_.slots);
    place_->Enter(
        {StreamSlots::Kind::kRead, served_.peer()},
        [pipeline = pipeline_](const absl::Status& why) { pipeline->BreakOff(why); },
        [self = shared_from_this()](const absl::Status& granted) { self->Granted(granted); });
  }

 private:
  absl::StatusOr<std::unique_ptr<ReadProducer>> MakeProducer(const grpc::ByteBuffer& message) {
    std::vector<grpc::Slice> slices;
    std::string text;
    for (Bytes piece : PiecesOf(message, slices)) text += AsText(piece);
    v1::ReadObjectsRequest request;
    if (!request.ParseFromString(text)) {
      return MakeError(Reason::kInvalidArgument, "malformed request");
    }
    return ReadProducer::Create(service_.node.objects(), service_.pool, request);
  }

  // Whoever comes second of this and OnCancel ends a call that was cancelled in between.
  void Granted(absl::Status granted) {
    served_.QueueEnded();
    {
      MutexLock lock(mutex_);
      begun_ = true;
      if (cancelled_ && granted.ok()) granted = CallerGone();
      over_ = !granted.ok();
    }
    if (!granted.ok()) return EndCall(granted);
    pipeline_->Start(std::move(producer_));
  }

  void Send(ReadMessage message, bool more_at_once) override {
    service_.metrics.SentBytes(message.data.size());
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
  void FinishCall(const absl::Status& status) override { EndCall(status); }
  void EndCall(const absl::Status& status) {
    if (TakeEnd()) Finish(served_.End(status));
  }
  void BudgetWaited(int64_t nanos) override { served_.BudgetWaited(nanos); }
  void BreakOff() override { served_.BreakOff(); }
  void WaitsForClient(bool waits, uint64_t moved_bytes = 0) {
    place_->WaitsForClient(waits, moved_bytes);
    served_.WaitsForClient(waits);
  }

  void OnWriteDone(bool ok) override {
    WaitsForClient(false, ok ? outgoing_.Length() : 0);
    outgoing_.Clear();
    pipeline_->Sent(ok);
  }
  void OnCancel() override {
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
  void OnDone() override { LetGo(); }

  ServiceContext& service_;
  ServedCall served_;
  std::unique_ptr<ReadProducer> producer_;  // until the call has its place
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

}  // namespace

grpc::ServerReadReactor<grpc::ByteBuffer>* ServePutObject(ServiceContext& service,
                                                          grpc::CallbackServerContext& call,
                                                          grpc::ByteBuffer* response) {
  auto reactor = std::make_shared<PutObjectReactor>(service, call);
  reactor->KeepUntilDone();
  reactor->Begin(response);
  return reactor.get();
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ServeReadObjects(ServiceContext& service,
                                                             grpc::CallbackServerContext& call,
                                                             const grpc::ByteBuffer* request) {
  auto reactor = std::make_shared<ReadReactor>(service, call);
  reactor->KeepUntilDone();
  reactor->Begin(*request);
  return reactor.get();
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ServePutValue(
    ServiceContext& service, grpc::CallbackServerContext& call) {
  auto reactor = std::make_shared<PutValueReactor>(service, call);
  reactor->KeepUntilDone();
  reactor->Begin();
  return reactor.get();
}

}  // namespace tilekv
