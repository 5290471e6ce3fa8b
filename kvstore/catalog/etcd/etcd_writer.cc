#include "kvstore/catalog/etcd/etcd_writer.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/txn_check.h"

namespace tilekv {
namespace {

namespace pb = etcdserverpb;

constexpr int kMaxGroupsOnTheirWay = 2;
constexpr int64_t kNanosPerMilli = 1'000'000;
// What etcd adds to a request before it measures it.
constexpr uint64_t kRequestOverheadBytes = 4 * kKiB;

int64_t Now() { return Clock::System()->MonotonicNanos(); }

// What a transaction is about, for messages.
std::string What(const CatalogTxn& txn) {
  if (txn.writes.empty()) return "a check of the catalog";
  std::string text = fmt::format("the write of catalog key '{}'", Printable(txn.writes[0].key));
  if (txn.writes.size() > 1) text += fmt::format(" and {} more", txn.writes.size() - 1);
  return text;
}

uint64_t SizeOf(const CatalogTxn& txn) {
  uint64_t bytes = 0;
  // Each key stands in a compare or a write, and in what is read back.
  for (const Compare& compare : txn.compares) bytes += 2 * (compare.key.size() + 64);
  for (const CatalogWrite& write : txn.writes) {
    bytes += 2 * (write.key.size() + 64) + (write.value ? write.value->size() : 0);
  }
  return bytes;
}

// The keys of a group: what one of it writes no other may touch.
class Touched {
 public:
  bool Takes(const CatalogTxn& txn) const {
    for (const CatalogWrite& write : txn.writes) {
      if (touched_.count(write.key) > 0) return false;
    }
    for (const Compare& compare : txn.compares) {
      if (written_.count(compare.key) > 0) return false;
    }
    return true;
  }
  void Add(const CatalogTxn& txn) {
    for (const CatalogWrite& write : txn.writes) {
      written_.insert(write.key);
      touched_.insert(write.key);
    }
    for (const Compare& compare : txn.compares) touched_.insert(compare.key);
  }

 private:
  std::set<std::string_view> written_;
  std::set<std::string_view> touched_;
};

}  // namespace

absl::StatusOr<TxnResult> EtcdWriter::Write(const CatalogTxn& txn) {
  TILEKV_RETURN_IF_ERROR(CheckTxn(txn));
  TILEKV_RETURN_IF_ERROR(guard_.Check());
  Item item{txn, options_.random->Bytes(kTxnIdBytes)};
  item.deadline_ns = Now() + options_.timeout_ms * kNanosPerMilli;
  TILEKV_ASSIGN_OR_RETURN(pb::TxnRequest request, Encode(txn, item.id));
  if (MayBeGrouped(txn)) {
    item.bytes = SizeOf(txn);
    Queue(item);
    if (item.stage == Stage::kDone) return std::move(item.result);
  }
  return SendAlone(item, request);
}

absl::StatusOr<pb::TxnRequest> EtcdWriter::Encode(const CatalogTxn& txn, const std::string& id) {
  pb::TxnRequest request;
  codec_.Encode(txn, id, /*with_line=*/true, request);
  size_t operations = static_cast<size_t>(std::max(request.compare_size(), request.success_size()));
  if (operations > options_.txn_operations) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("{} needs {} operations in one transaction; etcd takes {} (its --max-txn-ops)",
                    What(txn), operations, options_.txn_operations));
  }
  uint64_t bytes = request.ByteSizeLong() + kRequestOverheadBytes;
  if (bytes > options_.request_bytes) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("{} needs a request of {}; etcd takes {} (its --max-request-bytes)", What(txn),
                    FormatSize(bytes), FormatSize(options_.request_bytes)));
  }
  return request;
}

void EtcdWriter::Queue(Item& item) {
  int64_t tired_ns = Now() + options_.timeout_ms * kNanosPerMilli * 2 / 5;
  mutex_.Lock();
  queue_.push_back(&item);
  while (item.stage == Stage::kQueued || item.stage == Stage::kSent) {
    if (item.stage == Stage::kQueued && groups_on_their_way_ < kMaxGroupsOnTheirWay) {
      std::vector<Item*> group = TakeGroup();
      ++groups_on_their_way_;
      mutex_.Unlock();
      SendGroup(group);
      mutex_.Lock();
      --groups_on_their_way_;
      changed_.SignalAll();
      continue;
    }
    if (item.stage == Stage::kSent) {
      changed_.Wait(mutex_);
      continue;
    }
    int64_t left_ns = tired_ns - Now();
    if (left_ns > 0) {
      changed_.WaitFor(mutex_, std::chrono::nanoseconds(left_ns));
      continue;
    }
    queue_.erase(std::find(queue_.begin(), queue_.end(), &item));
    item.stage = Stage::kAlone;
  }
  mutex_.Unlock();
}

std::vector<EtcdWriter::Item*> EtcdWriter::TakeGroup() {
  std::vector<Item*> group;
  Touched touched;
  uint64_t bytes = 0;
  std::deque<Item*> left;
  for (Item* item : queue_) {
    bool room = group.size() < kEtcdGroupTransactions &&
                (group.empty() || bytes + item->bytes <= kEtcdGroupBytes);
    if (!room || !touched.Takes(item->txn)) {
      left.push_back(item);
      continue;
    }
    touched.Add(item->txn);
    bytes += item->bytes;
    item->stage = Stage::kSent;
    group.push_back(item);
  }
  queue_ = std::move(left);
  return group;
}

void EtcdWriter::SendGroup(const std::vector<Item*>& group) {
  pb::TxnRequest request = codec_.EmptyGroup();
  int64_t deadline_ns = group.front()->deadline_ns;
  for (Item* item : group) {
    codec_.Encode(item->txn, item->id, /*with_line=*/false,
                  *request.add_success()->mutable_request_txn());
    deadline_ns = std::min(deadline_ns, item->deadline_ns);
  }
  pb::TxnResponse response;
  Reply reply = Send(request, response, deadline_ns);
  if (reply.answered() && !response.succeeded()) guard_.LineChanged();
  MutexLock lock(mutex_);
  if (reply.answered() && response.succeeded()) {
    Distribute(group, response);
    return;
  }
  for (Item* item : group) {
    item->stage = Stage::kAlone;
    item->unknown = reply.fate == Fate::kUnknown;
  }
}

void EtcdWriter::Distribute(const std::vector<Item*>& group, const pb::TxnResponse& response) {
  for (size_t i = 0; i < group.size(); ++i) {
    Item& item = *group[i];
    item.stage = Stage::kDone;
    if (static_cast<size_t>(response.responses_size()) != group.size()) {
      item.result =
          MakeError(Reason::kOutcomeUnknown,
                    fmt::format("{}: etcd's answer to a group is not one", What(item.txn)));
      continue;
    }
    pb::TxnResponse answer = response.responses(static_cast<int>(i)).response_txn();
    *answer.mutable_header() = response.header();
    item.result = Answer(item, answer, /*unknown=*/false);
  }
}

Reply EtcdWriter::Send(const pb::TxnRequest& request, pb::TxnResponse& response,
                       int64_t deadline_ns) {
  int64_t seen = guard_.Seen();
  Reply reply = rpc_.Txn(request, response, deadline_ns);
  if (reply.answered()) guard_.Answered(seen, response.header().revision());
  return reply;
}

absl::StatusOr<TxnResult> EtcdWriter::SendAlone(const Item& item, const pb::TxnRequest& request) {
  bool unknown = item.unknown;
  bool may_be_sent_again = MayBeSentAgain(item.txn);
  for (int tries = 1;; ++tries) {
    pb::TxnResponse response;
    Reply reply = Send(request, response, item.deadline_ns);
    if (reply.answered()) {
      if (!response.succeeded()) {
        TILEKV_ASSIGN_OR_RETURN(FailedTxn failed,
                                codec_.DecodeFailure(item.txn, item.id, response));
        if (!failed.line_holds) guard_.LineChanged();
      }
      return Answer(item, response, unknown);
    }
    unknown |= reply.fate == Fate::kUnknown;
    if (reply.final() || (unknown && !may_be_sent_again) ||
        !PauseBeforeRetry(tries, item.deadline_ns)) {
      return GiveUp(item, reply, unknown);
    }
  }
}

absl::StatusOr<TxnResult> EtcdWriter::Answer(const Item& item, const pb::TxnResponse& response,
                                             bool unknown) {
  Revision now = codec_.ToRevision(response.header().revision());
  if (response.succeeded()) return TxnResult{true, now, std::nullopt};
  TILEKV_ASSIGN_OR_RETURN(FailedTxn failed, codec_.DecodeFailure(item.txn, item.id, response));
  if (unknown && !item.txn.writes.empty()) {
    if (failed.ours) return TxnResult{true, codec_.ToRevision(*failed.ours), std::nullopt};
    if (failed.deleted) return TxnResult{true, now, std::nullopt};
    return MakeError(
        Reason::kOutcomeUnknown,
        fmt::format("{}: an earlier try of it was not answered and may have been done, "
                    "and others have written since; read and decide",
                    What(item.txn)));
  }
  TILEKV_RETURN_IF_ERROR(guard_.Check());
  if (failed.failed_compare) return TxnResult{false, now, failed.failed_compare};
  return MakeError(
      Reason::kInternal,
      fmt::format("{}: etcd did not apply it although all compares hold", What(item.txn)));
}

absl::Status EtcdWriter::GiveUp(const Item& item, const Reply& last, bool unknown) {
  if (!unknown || item.txn.writes.empty()) return last.error;
  return MakeError(Reason::kOutcomeUnknown,
                   fmt::format("{} was sent, and whether it was done is not known; read and decide "
                               "when etcd answers again: {}",
                               What(item.txn), ErrorText(last.error)));
}

}  // namespace tilekv
