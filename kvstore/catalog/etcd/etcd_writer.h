// Writes of a catalog in etcd: grouping, trying again, and what an outcome is that nobody heard of.
//
// 1. Transactions that may be grouped (MayBeGrouped) queue. The first that finds fewer than two
//    groups on their way leads: it takes from the front what is disjoint and within the bounds, and
//    sends it as one transaction of etcd that compares the line and holds each as a nested one. All
//    that applied in it have the same revision; no two of them touched a key that one of them
//    wrote.
// 2. All others (a lease, a counter, a commit) go alone, each from its own thread, at once. So does
//    what has queued for two fifths of its time, and each of a group that was not answered or was
//    refused as a whole.
// 3. A try that was not sent, or was refused with nothing done, is free to be repeated. After one
//    whose fate is unknown the same transaction, with the same id, is sent again, if it compares a
//    key that it writes: done twice it cannot be. When it is then found not to apply, it was done
//    if a record bears its id; a delete was done if the keys are absent. All else, and a
//    transaction that must not be sent again, is OUTCOME_UNKNOWN. A read alone settles nothing: the
//    first try may still be on its way.
// 4. Every call is over within the timeout: then NODE_UNAVAILABLE when nothing of it was ever
//    sent, OUTCOME_UNKNOWN otherwise.
//
// Thread-safe; blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/catalog/etcd/etcd_codec.h"
#include "kvstore/catalog/etcd/etcd_options.h"
#include "kvstore/catalog/etcd/etcd_rpc.h"
#include "kvstore/catalog/etcd/line_guard.h"

namespace tilekv {

class EtcdWriter {
 public:
  // All outlive the writer.
  EtcdWriter(EtcdRpc& rpc, const EtcdCodec& codec, LineGuard& guard, const EtcdOptions& options)
      : rpc_(rpc), codec_(codec), guard_(guard), options_(options) {}

  // INVALID_ARGUMENT: more, or larger, than etcd takes; nothing of it is sent.
  absl::StatusOr<TxnResult> Write(const CatalogTxn& txn);

 private:
  enum class Stage { kQueued, kSent, kDone, kAlone };
  struct Item {
    const CatalogTxn& txn;
    const std::string id;
    int64_t deadline_ns = 0;
    uint64_t bytes = 0;
    Stage stage = Stage::kQueued;
    bool unknown = false;  // kAlone: a try of it may have been done
    absl::StatusOr<TxnResult> result = TxnResult{};
  };

  absl::StatusOr<etcdserverpb::TxnRequest> Encode(const CatalogTxn& txn, const std::string& id);
  // Until it is kDone or kAlone.
  void Queue(Item& item);
  std::vector<Item*> TakeGroup() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendGroup(const std::vector<Item*>& group);
  void Distribute(const std::vector<Item*>& group, const etcdserverpb::TxnResponse& response);
  absl::StatusOr<TxnResult> SendAlone(const Item& item, const etcdserverpb::TxnRequest& request);
  absl::StatusOr<TxnResult> Answer(const Item& item, const etcdserverpb::TxnResponse& response,
                                   bool unknown);
  // The error of a transaction that will not be tried again.
  absl::Status GiveUp(const Item& item, const Reply& last, bool unknown);
  Reply Send(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& response,
             int64_t deadline_ns);

  EtcdRpc& rpc_;
  const EtcdCodec& codec_;
  LineGuard& guard_;
  const EtcdOptions& options_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<Item*> queue_ ABSL_GUARDED_BY(mutex_);
  int groups_on_their_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tilekv
