// Single tries of etcd's calls, and what became of each. Behind it is gRPC (etcd_grpc.h), or a test
// that loses answers.
//
// Whether a write may be sent again, and what its outcome is then, is decided above
// (etcd_writer.h); here is only what one try can know.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kvstore/catalog/etcd/etcd.pb.h"

namespace tilekv {

enum class Fate {
  kAnswered,  // the response is etcd's
  kRefused,   // etcd said no, and nothing was done
  kNotSent,   // no member could be reached, or none is known to be alive: nothing was done
  kUnknown,   // it was sent and nothing came back: it may have been done, or be done yet
};

// Refusals that are outcomes to some callers.
enum class Refusal { kOther, kLeaseNotFound, kLeaseExists, kCompacted };

struct Reply {
  Fate fate = Fate::kAnswered;
  bool again = false;  // kRefused: the next try may have more luck. The other failures always may
  Refusal refusal = Refusal::kOther;
  absl::Status error = absl::OkStatus();  // unless answered; names the endpoints

  bool answered() const { return fate == Fate::kAnswered; }
  bool final() const { return answered() || (fate == Fate::kRefused && !again); }
};

// Changes of a range of keys as they come. One thread reads; Cancel from any.
class EtcdWatchStream {
 public:
  virtual ~EtcdWatchStream() = default;
  // False when the stream is over.
  virtual bool Read(etcdserverpb::WatchResponse& response) = 0;
  virtual void Cancel() = 0;
};

// Deadlines are of Clock::System()'s MonotonicNanos. Thread-safe; every call blocks.
class EtcdRpc {
 public:
  virtual ~EtcdRpc() = default;

  virtual Reply Range(const etcdserverpb::RangeRequest& request,
                      etcdserverpb::RangeResponse& response, int64_t deadline_ns) = 0;
  virtual Reply Txn(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& response,
                    int64_t deadline_ns) = 0;
  virtual Reply Compact(const etcdserverpb::CompactionRequest& request,
                        etcdserverpb::CompactionResponse& response, int64_t deadline_ns) = 0;
  virtual Reply LeaseGrant(const etcdserverpb::LeaseGrantRequest& request,
                           etcdserverpb::LeaseGrantResponse& response, int64_t deadline_ns) = 0;
  virtual Reply LeaseRevoke(const etcdserverpb::LeaseRevokeRequest& request,
                            etcdserverpb::LeaseRevokeResponse& response, int64_t deadline_ns) = 0;
  virtual Reply LeaseKeepAlive(const etcdserverpb::LeaseKeepAliveRequest& request,
                               etcdserverpb::LeaseKeepAliveResponse& response,
                               int64_t deadline_ns) = 0;
  virtual Reply Status(const etcdserverpb::StatusRequest& request,
                       etcdserverpb::StatusResponse& response, int64_t deadline_ns) = 0;
  // Null, with `reply` saying why, when no member could be reached by then.
  virtual std::unique_ptr<EtcdWatchStream> Watch(const etcdserverpb::WatchRequest& request,
                                                 int64_t deadline_ns, Reply& reply) = 0;
};

// Tries until the reply is final or the time is over, with pauses of 20 to 500 ms that grow and
// vary. For calls that may be done twice. The error is the last try's; OUTCOME_UNKNOWN is the
// caller's to say.
struct RepeatedReply {
  Reply last;
  bool any_unknown = false;  // of the tries before the last
};
RepeatedReply Repeat(const std::function<Reply()>& attempt, int64_t deadline_ns);
// Before the try after `tries` of them. False, at once, when the time is over.
bool PauseBeforeRetry(int tries, int64_t deadline_ns);

}  // namespace tilekv
