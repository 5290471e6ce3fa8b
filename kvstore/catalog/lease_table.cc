#include "kvstore/catalog/lease_table.h"

namespace tilekv {

int64_t LeaseTable::DeadlineFor(int64_t ttl_s) {
  return clock_.MonotonicNanos() + ttl_s * 1'000'000'000;
}

LeaseId LeaseTable::Grant(int64_t ttl_s) {
  MutexLock lock(mutex_);
  // Random, so that an id of an earlier process names nothing.
  LeaseId id = 0;
  while (id == 0 || leases_.count(id) > 0) id = random_.Next();
  leases_[id].deadline_ns = DeadlineFor(ttl_s);
  return id;
}

bool LeaseTable::KeepAlive(LeaseId lease, int64_t ttl_s) {
  MutexLock lock(mutex_);
  auto found = leases_.find(lease);
  if (found == leases_.end() || found->second.deadline_ns <= clock_.MonotonicNanos()) return false;
  found->second.deadline_ns = DeadlineFor(ttl_s);
  return true;
}

bool LeaseTable::IsLive(LeaseId lease) {
  MutexLock lock(mutex_);
  auto found = leases_.find(lease);
  return found != leases_.end() && found->second.deadline_ns > clock_.MonotonicNanos();
}

std::vector<std::string> LeaseTable::KeysOf(LeaseId lease) {
  MutexLock lock(mutex_);
  auto found = leases_.find(lease);
  if (found == leases_.end()) return {};
  return {found->second.keys.begin(), found->second.keys.end()};
}

std::vector<std::string> LeaseTable::End(LeaseId lease) {
  MutexLock lock(mutex_);
  auto found = leases_.find(lease);
  if (found == leases_.end()) return {};
  std::vector<std::string> keys(found->second.keys.begin(), found->second.keys.end());
  for (const std::string& key : keys) owners_.erase(key);
  leases_.erase(found);
  return keys;
}

bool LeaseTable::AnyDue() {
  MutexLock lock(mutex_);
  int64_t now = clock_.MonotonicNanos();
  for (const auto& [id, lease] : leases_) {
    if (lease.deadline_ns <= now) return true;
  }
  return false;
}

std::vector<LeaseId> LeaseTable::Due() {
  MutexLock lock(mutex_);
  int64_t now = clock_.MonotonicNanos();
  std::vector<LeaseId> due;
  for (const auto& [id, lease] : leases_) {
    if (lease.deadline_ns <= now) due.push_back(id);
  }
  return due;
}

void LeaseTable::Attach(const std::string& key, LeaseId lease) {
  MutexLock lock(mutex_);
  if (auto owner = owners_.find(key); owner != owners_.end()) {
    if (auto old = leases_.find(owner->second); old != leases_.end()) old->second.keys.erase(key);
    owners_.erase(owner);
  }
  if (lease == 0) return;
  auto found = leases_.find(lease);
  if (found == leases_.end()) return;
  found->second.keys.insert(key);
  owners_[key] = lease;
}

}  // namespace tilekv
