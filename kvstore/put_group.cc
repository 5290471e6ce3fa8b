#include "kvstore/put_group.h"

#include <set>
#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/node/model_records.h"

namespace tilekv {
namespace {

// Of a put beside key and content, in the message of a batch; the batch's own too.
constexpr uint64_t kBytesPerItem = 64;

// Whether a batch that ended so may have written some of its values.
bool MayHaveWritten(const absl::Status& failed) {
  switch (GetReason(failed)) {
    case Reason::kCancelled:
    case Reason::kDeadlineExceeded:
    case Reason::kInternal:
    case Reason::kNodeUnavailable:
    case Reason::kOutcomeUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool CameBetween(const v1::Condition& condition, const PutResult& result) {
  return !result.applied && ConditionHolds(condition, result.version);
}

bool PutGroup::Takes(uint64_t content_bytes) { return content_bytes <= kGroupedPutBytes; }

absl::StatusOr<PutResult> PutGroup::Run(const Put& put, const Alone& alone) {
  Waiter self{.put = put};
  Waiters batch;
  {
    MutexLock lock(mutex_);
    if (on_their_way_ < at_once_) {
      ++on_their_way_;
      self.state = Waiter::kSends;
    } else {
      waiting_.push_back(&self);
      while (self.state == Waiter::kWaits) self.changed.Wait(mutex_);
    }
    if (self.state == Waiter::kSends) batch = TakeLocked(&self);
  }
  bool on_the_way = self.state == Waiter::kSends;
  auto come_back = [&](bool in_trouble) {
    if (std::exchange(on_the_way, false)) ComeBack(in_trouble);
  };
  if (batch.size() > 1) {
    SendBatch(batch);
    come_back(!self.result.failed.ok());
  }
  if (self.result.done) return *self.result.done;
  // Whoever was in a batch that failed goes on beside those that are on their way.
  absl::StatusOr<PutResult> result = alone(self.result, [&] { come_back(true); });
  come_back(false);
  return result;
}

size_t PutGroup::waiting() {
  MutexLock lock(mutex_);
  return waiting_.size();
}

PutGroup::Waiters PutGroup::TakeLocked(Waiter* first) {
  Waiters batch = {first};
  std::deque<Waiter*> later;
  std::set<std::string_view> keys = {first->put.key};
  uint64_t bytes = first->put.content.size() + first->put.key.size() + kBytesPerItem;
  for (Waiter* next : waiting_) {
    // A batch of so little needs no place among the transfers.
    const uint64_t next_bytes = next->put.content.size() + next->put.key.size() + kBytesPerItem;
    bool fits = batch.size() < kMaxGroupedPuts && bytes + next_bytes <= kSmallValueBytes;
    if (fits && keys.insert(next->put.key).second) {
      bytes += next_bytes;
      batch.push_back(next);
    } else {
      later.push_back(next);
    }
  }
  waiting_ = std::move(later);
  return batch;
}

void PutGroup::SendBatch(const Waiters& batch) {
  v1::BatchPutRequest request;
  request.set_request_id(new_request_id_());
  for (const Waiter* waiter : batch) {
    v1::BatchPutItem& item = *request.add_items();
    item.set_key(std::string(waiter->put.key));
    item.set_content(waiter->put.content);
    *item.mutable_condition() = *waiter->put.condition;
  }
  std::vector<uint64_t> compares;
  absl::StatusOr<std::vector<PutResult>> results = send_(request, compares);
  const bool may_have_written =
      !results.ok() && compares.size() == batch.size() && MayHaveWritten(results.status());
  MutexLock lock(mutex_);
  for (size_t i = 0; i < batch.size(); ++i) {
    Waiter& waiter = *batch[i];
    if (results.ok()) {
      if (!CameBetween(*waiter.put.condition, (*results)[i])) waiter.result.done = (*results)[i];
    } else {
      waiter.result.failed = results.status();
      if (may_have_written) {
        waiter.result.compare = Revision{compares[i]};
        waiter.result.request_id = request.request_id();
      }
    }
    if (i == 0) continue;  // the caller
    waiter.state = Waiter::kDone;
    waiter.changed.Signal();
  }
}

void PutGroup::ComeBack(bool in_trouble) {
  MutexLock lock(mutex_);
  if (in_trouble) {
    for (Waiter* waiter : waiting_) {
      waiter->state = Waiter::kDone;
      waiter->changed.Signal();
    }
    waiting_.clear();
  }
  if (waiting_.empty()) {
    --on_their_way_;
    return;
  }
  Waiter* next = waiting_.front();
  waiting_.pop_front();
  next->state = Waiter::kSends;
  next->changed.Signal();
}

}  // namespace tilekv
