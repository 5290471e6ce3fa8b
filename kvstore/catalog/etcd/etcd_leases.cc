#include "kvstore/catalog/etcd/etcd_leases.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

namespace pb = etcdserverpb;

constexpr int64_t kNanosPerMilli = 1'000'000;
constexpr int64_t kNanosPerSecond = 1'000'000'000;
constexpr int64_t kFreshAtMost_ns = 5 * kNanosPerSecond;
constexpr int64_t kAgainAfterFailure_ns = kNanosPerSecond;
constexpr int64_t kIdle_ns = 3'600 * kNanosPerSecond;

int64_t Now() { return Clock::System()->MonotonicNanos(); }

}  // namespace

EtcdLeases::~EtcdLeases() {
  std::thread keeper;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    keeper = std::move(keeper_);
    changed_.SignalAll();
  }
  if (keeper.joinable()) keeper.join();
}

int64_t EtcdLeases::Deadline() const { return Now() + options_.timeout_ms * kNanosPerMilli; }

absl::StatusOr<LeaseId> EtcdLeases::Grant(int64_t ttl_s) {
  pb::LeaseGrantRequest request;
  request.set_ttl(std::max<int64_t>(1, ttl_s));
  // Drawn here, so that asking twice grants one.
  int64_t id = 0;
  while (id == 0) id = static_cast<int64_t>(options_.random->Next() >> 1);
  request.set_id(id);
  pb::LeaseGrantResponse response;
  int64_t deadline_ns = Deadline();
  int64_t asked_ns = Now();
  RepeatedReply reply =
      Repeat([&] { return rpc_.LeaseGrant(request, response, deadline_ns); }, deadline_ns);
  bool ours = reply.any_unknown && reply.last.refusal == Refusal::kLeaseExists;
  if (!reply.last.answered() && !ours) return reply.last.error;
  int64_t granted_s = reply.last.answered() ? response.ttl() : request.ttl();
  MutexLock lock(mutex_);
  leases_[static_cast<LeaseId>(id)] = {granted_s * kNanosPerSecond, asked_ns, 0};
  return static_cast<LeaseId>(id);
}

absl::StatusOr<bool> EtcdLeases::Renew(LeaseId lease) {
  pb::LeaseKeepAliveRequest request;
  request.set_id(static_cast<int64_t>(lease));
  pb::LeaseKeepAliveResponse response;
  int64_t deadline_ns = Deadline();
  int64_t asked_ns = Now();
  RepeatedReply reply = Repeat(
      [&] {
        asked_ns = Now();
        return rpc_.LeaseKeepAlive(request, response, deadline_ns);
      },
      deadline_ns);
  bool gone =
      reply.last.answered() ? response.ttl() <= 0 : reply.last.refusal == Refusal::kLeaseNotFound;
  if (!reply.last.answered() && !gone) return reply.last.error;
  MutexLock lock(mutex_);
  if (gone) {
    leases_.erase(lease);
    return false;
  }
  Lease& state = leases_[lease];
  state.granted_ns = response.ttl() * kNanosPerSecond;
  state.renewed_ns = asked_ns;
  return true;
}

absl::StatusOr<bool> EtcdLeases::KeepAlive(LeaseId lease, int64_t ttl_s) {
  bool fresh = false;
  {
    MutexLock lock(mutex_);
    auto found = leases_.find(lease);
    if (found != leases_.end()) {
      int64_t fresh_ns = std::min(found->second.granted_ns / 10, kFreshAtMost_ns);
      fresh = Now() < found->second.renewed_ns + fresh_ns;
    }
  }
  if (!fresh) {
    TILEKV_ASSIGN_OR_RETURN(bool alive, Renew(lease));
    if (!alive) return false;
  }
  MutexLock lock(mutex_);
  auto found = leases_.find(lease);
  if (found == leases_.end()) return false;  // revoked meanwhile
  int64_t wanted_ns = ttl_s * kNanosPerSecond;
  found->second.keep_until_ns = wanted_ns > found->second.granted_ns ? Now() + wanted_ns : 0;
  if (found->second.keep_until_ns > 0 && !stopping_) {
    if (!keeper_.joinable()) keeper_ = std::thread([this] { Run(); });
    changed_.SignalAll();
  }
  return true;
}

absl::Status EtcdLeases::Revoke(LeaseId lease) {
  {
    MutexLock lock(mutex_);
    leases_.erase(lease);
  }
  pb::LeaseRevokeRequest request;
  request.set_id(static_cast<int64_t>(lease));
  pb::LeaseRevokeResponse response;
  int64_t deadline_ns = Deadline();
  RepeatedReply reply =
      Repeat([&] { return rpc_.LeaseRevoke(request, response, deadline_ns); }, deadline_ns);
  if (reply.last.answered() || reply.last.refusal == Refusal::kLeaseNotFound) {
    return absl::OkStatus();
  }
  if (!reply.any_unknown && reply.last.fate != Fate::kUnknown) return reply.last.error;
  return MakeError(Reason::kOutcomeUnknown,
                   fmt::format("whether a lease was ended is not known; it ends by itself: {}",
                               ErrorText(reply.last.error)));
}

LeaseId EtcdLeases::NextDue(int64_t& wait_ns) {
  int64_t now_ns = Now();
  wait_ns = kIdle_ns;
  for (auto at = leases_.begin(); at != leases_.end();) {
    auto& [id, lease] = *at;
    int64_t ends_ns = lease.renewed_ns + lease.granted_ns;
    // Over, as far as this process knows: nothing to remember of it.
    if (lease.keep_until_ns == 0 && ends_ns < now_ns) {
      at = leases_.erase(at);
      continue;
    }
    ++at;
    if (lease.keep_until_ns == 0) continue;
    if (ends_ns >= lease.keep_until_ns) {  // it lasts by itself
      lease.keep_until_ns = 0;
      continue;
    }
    int64_t left_ns = lease.renewed_ns + lease.granted_ns / 3 - now_ns;
    if (left_ns <= 0) return id;
    wait_ns = std::min(wait_ns, left_ns);
  }
  return 0;
}

void EtcdLeases::Run() {
  mutex_.Lock();
  while (!stopping_) {
    int64_t wait_ns = 0;
    LeaseId due = NextDue(wait_ns);
    if (due != 0) {
      mutex_.Unlock();
      absl::StatusOr<bool> renewed = Renew(due);
      mutex_.Lock();
      if (renewed.ok()) continue;
      wait_ns = kAgainAfterFailure_ns;
    }
    if (!stopping_) changed_.WaitFor(mutex_, std::chrono::nanoseconds(wait_ns));
  }
  mutex_.Unlock();
}

}  // namespace tilekv
