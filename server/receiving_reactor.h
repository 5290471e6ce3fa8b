// The reactors of streams that receive: how a stream gets its place, its receiver and its end.
// Pulls in gRPC.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kvstore/base/mutex.h"
#include "kvstore/grpc/grpc_call.h"
#include "server/bulk_receiver.h"
#include "server/counted_reactor.h"
#include "server/grpc_calls.h"
#include "server/stream_class.h"

namespace tilekv {

// What the streams that receive have in common. Reactor is one of gRPC's with StartRead.
template <typename Reactor>
class ReceivingReactor : public Reactor,
                         public BulkCarrier,
                         public CountedReactor<ReceivingReactor<Reactor>> {
 protected:
  ReceivingReactor(StreamClass streams, grpc::CallbackServerContext& call, const char* name)
      : streams_(std::move(streams)), served_(streams_.metrics, streams_.slow_calls, call, name) {}

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
    auto receiver = std::make_shared<BulkReceiver>(this, std::move(sink), &streams_.budget,
                                                   streams_.pool, &streams_.executor);
    if (SetReceiver(receiver)) Enter(streams_.slots, [receiver] { receiver->Start(); });
  }

  // A message, or the end, where there is no receiver yet.
  virtual void OnFirstMessage(bool) {}
  std::shared_ptr<StreamReceiver> receiver() {
    MutexLock lock(mutex_);
    return receiver_;
  }
  virtual void EndCall(const absl::Status& status) {
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
      streams_.metrics.ReceivedBytes(incoming_.Length());
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

  const StreamClass streams_;
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

}  // namespace tilekv
