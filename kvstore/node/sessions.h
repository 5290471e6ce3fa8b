// Upload sessions. A session is a record under a lease; the revision that created it is what its
// puts and links carry. While the record lives, the collector deletes nothing that they touched.
//
// Every use renews the lease (kSessionLease_s), up to kSessionMax_s after the beginning. A session
// that is kept (Keep) lives to that end; when its last keeper goes it has kSessionDetachedLease_s,
// unless it is used again.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/node/node_context.h"
#include "kvstore/node/node_service.h"

namespace tilekv {

struct SessionHandle {
  std::string token;  // 16 bytes
  Revision revision;
};

// Thread-safe.
class Sessions {
 public:
  explicit Sessions(NodeContext& node) : node_(node) {}

  // `lease_s` 0: kSessionLease_s; at most kSessionMax_s.
  absl::StatusOr<SessionHandle> Begin(const std::string& holder, int64_t lease_s = 0);
  // Ends every session of the catalog but those of puts by key (see RollingSession), which end by
  // themselves. Their clients hear SESSION_LOST. Returns how many.
  absl::StatusOr<uint64_t> EndUploads();
  // For a put or a link with this revision. SESSION_LOST: the session has ended, or is from before
  // the node's start, or the revision is below the fence. INVALID_ARGUMENT: above everything that
  // the catalog has given.
  absl::Status Use(Revision session_rev);
  // What a transaction that relies on the session compares. SESSION_LOST when it is gone already.
  absl::StatusOr<Compare> CompareFor(const std::string& token, Revision session_rev);
  absl::Status End(const std::string& token);
  // Must be destroyed before this object.
  absl::StatusOr<std::unique_ptr<NodeService::SessionKeeper>> Keep(const std::string& token);

  // Of the collector's last round: older revisions are refused from now on.
  void RaiseFence(Revision fence);

 private:
  friend class RollingSession;
  class Keeper;
  struct State {
    LeaseId lease = 0;
    Revision revision;
    int64_t end_ns = 0;  // monotonic: kSessionMax_s after the beginning
    int keepers = 0;
    bool ended = false;
  };
  using States = std::map<std::string, State>;  // by token

  absl::StatusOr<SessionHandle> BeginAs(const std::string& holder, int64_t lease_s, bool of_node);
  absl::Status Renew(State& state, int64_t lease_s) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Detach(const std::string& token);
  // Of a cluster: a session that another node began becomes known here too, if it lives.
  absl::Status Adopt(const std::string& token);

  NodeContext& node_;
  Mutex mutex_;
  // Those begun here, or kept here for another node; ended ones stay until the fence is above
  // them.
  States states_ ABSL_GUARDED_BY(mutex_);
  std::map<Revision, std::string> tokens_ ABSL_GUARDED_BY(mutex_);
  Revision fence_ ABSL_GUARDED_BY(mutex_);
};

// The session of a node's puts by key: one for all, replaced every kRollingSession_s, ended when
// its last put has ended. Thread-safe.
class RollingSession {
 public:
  RollingSession(NodeContext& node, Sessions& sessions) : node_(node), sessions_(sessions) {}

  // Held while a put relies on it.
  class Held {
   public:
    Held(Sessions& sessions, SessionHandle handle)
        : sessions_(sessions), handle_(std::move(handle)) {}
    ~Held();
    const SessionHandle& handle() const { return handle_; }
    // Renews it during a long put.
    absl::Status Use() const { return sessions_.Use(handle_.revision); }

   private:
    Sessions& sessions_;
    const SessionHandle handle_;
  };
  absl::StatusOr<std::shared_ptr<const Held>> Acquire();
  // The next Acquire begins a new one.
  void Replace();

 private:
  NodeContext& node_;
  Sessions& sessions_;
  Mutex mutex_;
  std::shared_ptr<const Held> current_ ABSL_GUARDED_BY(mutex_);
  int64_t replace_at_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tilekv
