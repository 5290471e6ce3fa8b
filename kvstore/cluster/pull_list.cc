#include "kvstore/cluster/pull_list.h"

#include <algorithm>

namespace tilekv {
namespace {

constexpr size_t kOfferedCopies = 2;
constexpr int64_t kFirstRetry_nanos = 5'000'000'000;

int64_t RetryAfter_nanos(int tries) {
  constexpr int64_t kMost_nanos = kRepairRoundEvery_s * 1'000'000'000;
  return std::min(kFirstRetry_nanos << std::min(tries - 1, 16), kMost_nanos);
}

}  // namespace

PullList::Rank PullList::RankOf(const Entry& entry) {
  size_t copies = entry.pull.holders.size();
  if (copies == 0) copies = kMaxReplication;
  if (!entry.counted) copies = std::max(copies, kOfferedCopies);
  return {copies, entry.number, entry.pull.wanted.ref.id};
}

void PullList::Queue(const Entry& entry) {
  if (entry.due_nanos <= clock_.MonotonicNanos()) {
    due_.insert(RankOf(entry));
  } else {
    later_.emplace(entry.due_nanos, entry.pull.wanted.ref.id);
  }
}

void PullList::Unqueue(const Entry& entry) {
  due_.erase(RankOf(entry));
  later_.erase({entry.due_nanos, entry.pull.wanted.ref.id});
}

void PullList::TakeDue() {
  const int64_t now_nanos = clock_.MonotonicNanos();
  while (!later_.empty() && later_.begin()->first <= now_nanos) {
    due_.insert(RankOf(entries_.at(later_.begin()->second)));
    later_.erase(later_.begin());
  }
}

bool PullList::Want(Domain domain, const TouchedRef& wanted, std::string_view holder) {
  if (domain != domain_) return false;
  const std::string name(holder);
  MutexLock lock(mutex_);
  return AddWithin(most_ / 2, wanted, {&name, 1}, /*counted=*/false);
}

bool PullList::Add(const TouchedRef& wanted, std::span<const std::string> holders) {
  MutexLock lock(mutex_);
  return AddWithin(most_, wanted, holders, /*counted=*/true);
}

bool PullList::AddWithin(size_t most, const TouchedRef& wanted,
                         std::span<const std::string> holders, bool counted) {
  auto found = entries_.find(wanted.ref.id);
  if (found == entries_.end()) {
    if (entries_.size() >= most) return false;
    found = entries_.emplace(wanted.ref.id, Entry()).first;
    Entry& entry = found->second;
    entry.pull.wanted = wanted;
    entry.number = next_number_++;
    entry.since_nanos = entry.due_nanos = clock_.MonotonicNanos();
    content_bytes_ += wanted.ref.length;
  }
  Entry& entry = found->second;
  if (!entry.under_way) Unqueue(entry);
  entry.counted |= counted;
  Pull& pull = entry.pull;
  pull.wanted.touched_rev = std::max(pull.wanted.touched_rev, wanted.touched_rev);
  for (const std::string& holder : holders) {
    if (pull.holders.size() == kMaxReplication) break;
    if (std::find(pull.holders.begin(), pull.holders.end(), holder) != pull.holders.end()) continue;
    pull.holders.push_back(holder);
    // News of a copy, after those that were known have failed.
    if (pull.tries > 0) entry.due_nanos = clock_.MonotonicNanos();
  }
  if (!entry.under_way) Queue(entry);
  return true;
}

bool PullList::HasRoom() {
  MutexLock lock(mutex_);
  return entries_.size() < most_;
}

std::optional<Pull> PullList::Next() {
  MutexLock lock(mutex_);
  TakeDue();
  if (due_.empty()) return std::nullopt;
  Entry& entry = entries_.at(std::get<ObjectId>(*due_.begin()));
  due_.erase(due_.begin());
  entry.under_way = true;
  return entry.pull;
}

void PullList::Done(const ObjectId& id) {
  MutexLock lock(mutex_);
  Forget(id);
}

void PullList::Forget(const ObjectId& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const Entry& entry = found->second;
  Unqueue(entry);
  content_bytes_ -= entry.pull.wanted.ref.length;
  missing_ -= entry.pull.tries > 0 ? 1 : 0;
  entries_.erase(found);
}

void PullList::TryLater(const ObjectId& id) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.under_way) return;
  // What cannot be had must not keep out what can. It is found again by a later survey.
  if (found->second.pull.tries == 0 && missing_ >= most_ / 4) return Forget(id);
  Entry& entry = found->second;
  entry.under_way = false;
  missing_ += entry.pull.tries == 0 ? 1 : 0;
  entry.due_nanos = clock_.MonotonicNanos() + RetryAfter_nanos(++entry.pull.tries);
  // Whoever was known has failed: then everybody is asked.
  entry.pull.holders.clear();
  Queue(entry);
}

void PullList::PutBack(const ObjectId& id) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.under_way) return;
  found->second.under_way = false;
  Queue(found->second);
}

bool PullList::HasDue() {
  MutexLock lock(mutex_);
  TakeDue();
  return !due_.empty();
}

bool PullList::HasFresh() {
  MutexLock lock(mutex_);
  return entries_.size() > missing_;
}

std::optional<int64_t> PullList::NextDue_nanos() {
  MutexLock lock(mutex_);
  if (later_.empty()) return std::nullopt;
  return later_.begin()->first;
}

PullFigures PullList::figures() {
  MutexLock lock(mutex_);
  PullFigures figures{.objects = entries_.size(),
                      .content_bytes = content_bytes_,
                      .missing = missing_,
                      .oldest_nanos = std::nullopt};
  for (const auto& [id, entry] : entries_) {
    figures.oldest_nanos =
        std::min(figures.oldest_nanos.value_or(entry.since_nanos), entry.since_nanos);
  }
  return figures;
}

void PullList::Clear() {
  MutexLock lock(mutex_);
  entries_.clear();
  due_.clear();
  later_.clear();
  content_bytes_ = missing_ = 0;
}

}  // namespace tilekv
