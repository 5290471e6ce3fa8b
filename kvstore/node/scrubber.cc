#include "kvstore/node/scrubber.h"

#include <algorithm>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int64_t kMicros = 1'000'000;
constexpr size_t kRowsAtOnce = 4'096;  // looked at by one step
// What reading an object costs beside its bytes, so that very many small ones are paced too.
constexpr uint64_t kObjectCostBytes = 64 * kKiB;
constexpr int64_t kLeastIdle_micros = kMicros;
constexpr int64_t kMostIdle_micros = 3'600 * kMicros;
constexpr uint64_t kTableBytesPerSecond = 32 * kMiB;

uint64_t CostOf(uint64_t objects, uint64_t bytes) { return bytes + objects * kObjectCostBytes; }

}  // namespace

absl::StatusOr<std::optional<ObjectRow>> Scrubber::FindDue(int64_t now_micros) {
  std::optional<ObjectRow> due;
  size_t seen = 0;
  at_end_ = true;
  TILEKV_RETURN_IF_ERROR(objects_.Scan(domain_, after_, [&](const ObjectRow& row) {
    if (seen++ == kRowsAtOnce) {
      at_end_ = false;
      return false;
    }
    after_ = row.ref.id;
    int64_t due_micros = row.verified_at_micros + due_after_micros_;
    // A time in the future is of a clock that was wrong.
    bool is_due = row.state == RowState::kSuspect || due_micros <= now_micros ||
                  row.verified_at_micros > now_micros;
    if (!is_due) {
      next_due_micros_ = std::min(next_due_micros_.value_or(due_micros), due_micros);
      return true;
    }
    due = row;
    at_end_ = false;
    return false;
  }));
  return due;
}

absl::StatusOr<int64_t> Scrubber::Check(const ObjectRow& row) {
  int64_t began_ns = clock_.MonotonicNanos();
  absl::StatusOr<bool> good = objects_.Verify(domain_, row.ref.id);
  if (!good.ok() && GetReason(good.status()) != Reason::kNotFound) return good.status();
  if (good.ok()) {
    MutexLock lock(mutex_);
    ++stats_.objects;
    stats_.bytes += row.stored_length;
    stats_.damaged += !*good;
    any_due_ = any_due_ || *good || row.state == RowState::kGood;
  }
  TILEKV_ASSIGN_OR_RETURN(StoreUsage usage, objects_.Usage());
  uint64_t per_second =
      std::max(kScrubLeastBytesPerSecond, CostOf(usage.objects, usage.stored_bytes) /
                                              std::max<uint64_t>(1, due_after_micros_ / kMicros));
  auto should_take = static_cast<int64_t>(static_cast<double>(CostOf(1, row.stored_length)) *
                                          kMicros / static_cast<double>(per_second));
  int64_t took = (clock_.MonotonicNanos() - began_ns) / 1'000;
  return std::max<int64_t>(0, should_take - took);
}

int64_t Scrubber::EndRound(int64_t now_micros) {
  int64_t idle = next_due_micros_.value_or(now_micros + kMostIdle_micros) - now_micros;
  // What was due at its time may have grown old again, or suspect.
  if (any_due_) idle = 0;
  after_.reset();
  next_due_micros_.reset();
  any_due_ = false;
  {
    MutexLock lock(mutex_);
    ++stats_.rounds;
  }
  return std::clamp(idle, kLeastIdle_micros, kMostIdle_micros);
}

absl::StatusOr<int64_t> Scrubber::Step(const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  TILEKV_ASSIGN_OR_RETURN(std::optional<int64_t> table, CheckNextTable());
  if (table) return *table;
  int64_t now = clock_.WallMicros();
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> due, FindDue(now));
  if (due) return Check(*due);
  return at_end_ ? EndRound(now) : 0;
}

absl::StatusOr<std::optional<int64_t>> Scrubber::CheckNextTable() {
  int64_t began_ns = clock_.MonotonicNanos();
  if (began_ns < tables_due_ns_) return std::nullopt;
  while (database_ < tables_.of.size()) {
    TableFiles* files = tables_.of[database_];
    std::optional<TableFile> file;
    if (files != nullptr) file = files->After(last_table_);
    if (!file) {
      ++database_;
      last_table_ = 0;
      continue;
    }
    last_table_ = file->number;
    absl::Status checked = files->Check(*file);
    // What took its place has a higher number.
    if (GetReason(checked) == Reason::kNotFound) continue;
    bool damaged = GetReason(checked) == Reason::kDataLoss;
    if (!checked.ok() && !damaged) return checked;
    if (damaged && tables_.notice != nullptr) tables_.notice(ErrorText(checked));
    {
      MutexLock lock(mutex_);
      ++stats_.tables;
      stats_.damaged_tables += damaged;
    }
    auto should_take = static_cast<int64_t>(static_cast<double>(file->bytes) * kMicros /
                                            static_cast<double>(kTableBytesPerSecond));
    int64_t took = (clock_.MonotonicNanos() - began_ns) / 1'000;
    return std::max<int64_t>(0, should_take - took);
  }
  database_ = 0;
  tables_due_ns_ = began_ns + due_after_micros_ * 1'000;
  return std::nullopt;
}

ScrubStats Scrubber::stats() {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace tilekv
