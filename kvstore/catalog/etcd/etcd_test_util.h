// For the tests of the catalog in etcd: options, and means to reach it that lose what they are
// told.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/base/mutex.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/etcd/etcd_catalog.h"
#include "kvstore/catalog/etcd/etcd_grpc.h"
#include "kvstore/catalog/etcd/etcd_rpc.h"
#include "tests/support/etcd_process.h"

namespace tilekv {

inline EtcdOptions TestOptions(const EtcdProcess& etcd, const std::string& cluster) {
  EtcdOptions options;
  options.endpoints = etcd.endpoints();
  options.cluster = cluster;
  options.create_if_missing = true;
  return options;
}

// What happens to one transaction.
struct Mishap {
  enum class Kind {
    kNone,
    kAnswerLost,   // done, but nobody hears of it
    kRequestLost,  // not done, and nobody hears of that
    kNotSent,
    kRefused,
  };
  Kind kind = Kind::kNone;
  std::function<void()> after = {};  // then
};

// Passes everything on to a real etcd, but for the mishaps of transactions, in their order.
class LossyRpc : public EtcdRpc {
 public:
  explicit LossyRpc(std::unique_ptr<EtcdRpc> real) : real_(std::move(real)) {}

  void Next(Mishap mishap) {
    MutexLock lock(mutex_);
    mishaps_.push_back(std::move(mishap));
  }
  std::vector<etcdserverpb::TxnRequest> sent() {
    MutexLock lock(mutex_);
    return sent_;
  }
  void Forget() {
    MutexLock lock(mutex_);
    sent_.clear();
  }
  std::atomic<bool> nothing_answers{false};
  std::atomic<int64_t> revision_shift{0};         // of answers to reads
  std::function<void()> before_each_transaction;  // set before use

  Reply Range(const etcdserverpb::RangeRequest& request, etcdserverpb::RangeResponse& response,
              int64_t deadline_ns) override {
    if (nothing_answers) return Lost(Fate::kUnknown);
    Reply reply = real_->Range(request, response, deadline_ns);
    response.mutable_header()->set_revision(response.header().revision() + revision_shift);
    return reply;
  }
  Reply Txn(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& response,
            int64_t deadline_ns) override {
    if (before_each_transaction) before_each_transaction();
    Mishap mishap;
    {
      MutexLock lock(mutex_);
      sent_.push_back(request);
      if (!mishaps_.empty()) {
        mishap = std::move(mishaps_.front());
        mishaps_.pop_front();
      }
    }
    Reply reply;
    switch (mishap.kind) {
      case Mishap::Kind::kNone:
        reply = nothing_answers ? Lost(Fate::kUnknown) : real_->Txn(request, response, deadline_ns);
        break;
      case Mishap::Kind::kAnswerLost: {
        etcdserverpb::TxnResponse lost;
        reply = real_->Txn(request, lost, deadline_ns);
        if (reply.answered()) reply = Lost(Fate::kUnknown);
        break;
      }
      case Mishap::Kind::kRequestLost:
        reply = Lost(Fate::kUnknown);
        break;
      case Mishap::Kind::kNotSent:
        reply = Lost(Fate::kNotSent);
        break;
      case Mishap::Kind::kRefused:
        reply = Lost(Fate::kRefused);
        reply.again = false;
        break;
    }
    if (mishap.after) mishap.after();
    return reply;
  }
  Reply Compact(const etcdserverpb::CompactionRequest& request,
                etcdserverpb::CompactionResponse& response, int64_t deadline_ns) override {
    return real_->Compact(request, response, deadline_ns);
  }
  Reply LeaseGrant(const etcdserverpb::LeaseGrantRequest& request,
                   etcdserverpb::LeaseGrantResponse& response, int64_t deadline_ns) override {
    Reply reply = real_->LeaseGrant(request, response, deadline_ns);
    return lose_next_grant.exchange(false) ? Lost(Fate::kUnknown) : reply;
  }
  Reply LeaseRevoke(const etcdserverpb::LeaseRevokeRequest& request,
                    etcdserverpb::LeaseRevokeResponse& response, int64_t deadline_ns) override {
    return real_->LeaseRevoke(request, response, deadline_ns);
  }
  Reply LeaseKeepAlive(const etcdserverpb::LeaseKeepAliveRequest& request,
                       etcdserverpb::LeaseKeepAliveResponse& response,
                       int64_t deadline_ns) override {
    return real_->LeaseKeepAlive(request, response, deadline_ns);
  }
  Reply Status(const etcdserverpb::StatusRequest& request, etcdserverpb::StatusResponse& response,
               int64_t deadline_ns) override {
    return real_->Status(request, response, deadline_ns);
  }
  std::unique_ptr<EtcdWatchStream> Watch(const etcdserverpb::WatchRequest& request,
                                         int64_t deadline_ns, Reply& reply) override {
    return real_->Watch(request, deadline_ns, reply);
  }

  std::atomic<bool> lose_next_grant{false};

 private:
  static Reply Lost(Fate fate) {
    return {fate, true, Refusal::kOther, MakeError(Reason::kNodeUnavailable, "lost by the test")};
  }

  const std::unique_ptr<EtcdRpc> real_;
  Mutex mutex_;
  std::deque<Mishap> mishaps_ ABSL_GUARDED_BY(mutex_);
  std::vector<etcdserverpb::TxnRequest> sent_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
