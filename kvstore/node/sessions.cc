#include "kvstore/node/sessions.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/references.h"
#include "kvstore/node/shared_collection.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr size_t kTokenBytes = 16;
constexpr size_t kMaxHolderBytes = 1'024;

absl::Status SessionLost() {
  return MakeError(Reason::kSessionLost,
                   "the upload session has ended; begin a new one, link what was sent and send the "
                   "rest");
}

}  // namespace

class Sessions::Keeper : public NodeService::SessionKeeper {
 public:
  Keeper(Sessions& sessions, std::string token) : sessions_(sessions), token_(std::move(token)) {}
  ~Keeper() override { sessions_.Detach(token_); }

 private:
  Sessions& sessions_;
  const std::string token_;
};

absl::StatusOr<SessionHandle> Sessions::Begin(const std::string& holder, int64_t lease_s) {
  return BeginAs(holder, lease_s, /*of_node=*/false);
}

absl::StatusOr<SessionHandle> Sessions::BeginAs(const std::string& holder, int64_t lease_s,
                                                bool of_node) {
  if (lease_s <= 0) lease_s = kSessionLease_s;
  lease_s = std::min(lease_s, kSessionMax_s);
  v1::SessionRecord record;
  record.set_created_micros(node_.clock.WallMicros());
  // Cut at a character, and never anything but text: the record could not be read again.
  record.set_holder(IsValidUtf8(holder) ? holder.substr(0, Utf8Prefix(holder, kMaxHolderBytes))
                                        : Printable(holder));
  record.set_of_node(of_node);
  SessionHandle handle;
  handle.token = node_.random.Bytes(kTokenBytes);
  TILEKV_ASSIGN_OR_RETURN(LeaseId lease, node_.catalog.Grant(lease_s));
  record.set_lease(lease);
  std::string key = SessionKey(handle.token);
  TILEKV_ASSIGN_OR_RETURN(
      TxnResult result,
      node_.Txn({.compares = {Compare::Absent(key)},
                 .writes = {CatalogWrite::Put(key, record.SerializeAsString(), lease)}}));
  if (!result.applied) return MakeError(Reason::kInternal, "a session's random token is taken");
  handle.revision = result.revision;

  MutexLock lock(mutex_);
  State& state = states_[handle.token];
  state.lease = lease;
  state.revision = handle.revision;
  state.end_ns = node_.clock.MonotonicNanos() + kSessionMax_s * kNanosPerSecond;
  tokens_[handle.revision] = handle.token;
  return handle;
}

absl::Status Sessions::Renew(State& state, int64_t lease_s) {
  if (state.ended) return SessionLost();
  int64_t left_s = (state.end_ns - node_.clock.MonotonicNanos()) / kNanosPerSecond;
  if (state.keepers > 0) lease_s = kSessionMax_s;
  bool alive = false;
  if (left_s > 0) {
    TILEKV_ASSIGN_OR_RETURN(alive, node_.catalog.KeepAlive(state.lease, std::min(left_s, lease_s)));
  }
  if (alive) return absl::OkStatus();
  state.ended = true;
  return SessionLost();
}

absl::Status Sessions::Use(Revision session_rev) {
  if (node_.collection != nullptr) RaiseFence(node_.collection->fence());
  {
    MutexLock lock(mutex_);
    if (session_rev < fence_) return SessionLost();
    if (auto found = tokens_.find(session_rev); found != tokens_.end()) {
      return Renew(states_[found->second], kSessionLease_s);
    }
  }
  // Leases of a local catalog end with the process: a session from before this one is over, and
  // what is put under it would be nobody's. Those of a cluster end by themselves.
  if (node_.cluster == nullptr && session_rev <= node_.start_revision()) return SessionLost();
  // Of another node's session, as far as this node can tell.
  TILEKV_ASSIGN_OR_RETURN(Revision current, node_.catalog.CurrentRevision());
  if (session_rev <= current) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("session revision {} is above the catalog's, {}", session_rev.value,
                               current.value));
}

absl::StatusOr<Compare> Sessions::CompareFor(const std::string& token, Revision session_rev) {
  if (token.size() != kTokenBytes) {
    return MakeError(Reason::kInvalidArgument, fmt::format("a session's token has {} bytes, not {}",
                                                           kTokenBytes, token.size()));
  }
  std::string key = SessionKey(token);
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node_.catalog.Get(key));
  if (!entry || entry->create_revision != session_rev) return SessionLost();
  {
    MutexLock lock(mutex_);
    if (auto found = states_.find(token); found != states_.end()) {
      TILEKV_RETURN_IF_ERROR(Renew(found->second, kSessionLease_s));
    }
  }
  return Compare::Created(std::move(key), session_rev);
}

absl::Status Sessions::Adopt(const std::string& token) {
  if (node_.cluster == nullptr) return absl::OkStatus();
  {
    MutexLock lock(mutex_);
    if (states_.contains(token)) return absl::OkStatus();
  }
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node_.catalog.Get(SessionKey(token)));
  v1::SessionRecord record;
  if (!entry || !record.ParseFromString(entry->value)) return absl::OkStatus();
  const int64_t age_s = (node_.clock.WallMicros() - record.created_micros()) / kMicrosPerSecond;
  const int64_t left_s = kSessionMax_s - std::clamp<int64_t>(age_s, 0, kSessionMax_s);
  MutexLock lock(mutex_);
  State& state = states_[token];
  state.lease = record.lease();
  state.revision = entry->create_revision;
  state.end_ns = node_.clock.MonotonicNanos() + left_s * kNanosPerSecond;
  tokens_[state.revision] = token;
  return absl::OkStatus();
}

absl::Status Sessions::End(const std::string& token) {
  TILEKV_RETURN_IF_ERROR(Adopt(token));
  LeaseId lease = 0;
  {
    MutexLock lock(mutex_);
    auto found = states_.find(token);
    if (found == states_.end()) return absl::OkStatus();
    found->second.ended = true;
    lease = found->second.lease;
  }
  return node_.catalog.Revoke(lease);
}

absl::StatusOr<uint64_t> Sessions::EndUploads() {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogSnapshot> snapshot, node_.catalog.Snapshot());
  uint64_t ended = 0;
  KeyRange range = SessionRange();
  TILEKV_RETURN_IF_ERROR(VisitEntries(
      *snapshot, range.start, range.end, [&](const CatalogEntry& entry) -> absl::Status {
        v1::SessionRecord record;
        if (record.ParseFromString(entry.value) && record.of_node()) return absl::OkStatus();
        {
          MutexLock lock(mutex_);
          auto found = tokens_.find(entry.create_revision);
          if (found != tokens_.end()) states_[found->second].ended = true;
        }
        // Without its record a session's commit fails, whoever began it.
        TILEKV_ASSIGN_OR_RETURN(
            TxnResult result,
            node_.Txn({.compares = {Compare::Created(entry.key, entry.create_revision)},
                       .writes = {CatalogWrite::Delete(entry.key)}},
                      TxnPurpose::kRemove));
        ended += result.applied;
        return absl::OkStatus();
      }));
  return ended;
}

absl::StatusOr<std::unique_ptr<NodeService::SessionKeeper>> Sessions::Keep(
    const std::string& token) {
  TILEKV_RETURN_IF_ERROR(Adopt(token));
  MutexLock lock(mutex_);
  auto found = states_.find(token);
  if (found == states_.end()) return SessionLost();
  ++found->second.keepers;
  absl::Status renewed = Renew(found->second, kSessionMax_s);
  if (!renewed.ok()) {
    --found->second.keepers;
    return renewed;
  }
  return std::make_unique<Keeper>(*this, token);
}

void Sessions::Detach(const std::string& token) {
  MutexLock lock(mutex_);
  auto found = states_.find(token);
  if (found == states_.end() || --found->second.keepers > 0 || found->second.ended) return;
  // A session that is over already stays so.
  Renew(found->second, kSessionDetachedLease_s).IgnoreError();
}

void Sessions::RaiseFence(Revision fence) {
  MutexLock lock(mutex_);
  fence_ = std::max(fence_, fence);
  for (auto at = tokens_.begin(); at != tokens_.end() && at->first < fence_;) {
    states_.erase(at->second);
    at = tokens_.erase(at);
  }
}

RollingSession::Held::~Held() {
  // If this fails the lease's time ends it.
  sessions_.End(handle_.token).IgnoreError();
}

absl::StatusOr<std::shared_ptr<const RollingSession::Held>> RollingSession::Acquire() {
  std::shared_ptr<const Held> replaced;  // ends outside the lock
  MutexLock lock(mutex_);
  int64_t now_ns = node_.clock.MonotonicNanos();
  if (current_ != nullptr && now_ns < replace_at_ns_ && current_->Use().ok()) return current_;
  TILEKV_ASSIGN_OR_RETURN(SessionHandle handle,
                          sessions_.BeginAs("puts by key", kSessionLease_s, /*of_node=*/true));
  replaced = std::move(current_);
  current_ = std::make_shared<const Held>(sessions_, std::move(handle));
  replace_at_ns_ = now_ns + kRollingSession_s * kNanosPerSecond;
  return current_;
}

void RollingSession::Replace() {
  std::shared_ptr<const Held> replaced;
  MutexLock lock(mutex_);
  replaced = std::move(current_);
}

}  // namespace tilekv
