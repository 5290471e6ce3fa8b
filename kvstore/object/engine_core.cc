#include "kvstore/object/engine_core.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/status.h"
#include "kvstore/object/copy_check.h"
#include "kvstore/object/damage_reports.h"
#include "kvstore/object/index_rows.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/stored_copy.h"
#include "kvstore/object/uncached_file.h"

namespace tilekv {
namespace {

constexpr uint64_t kIdlePoolBytes = 16 * kMiB;
// Read and hashed at a time by Verify.
constexpr uint64_t kVerifyStepBytes = 4 * kMiB;
constexpr size_t kRowsAtOnce = 1'024;  // changed in one batch

// Several stripes at once, in order, for a batch of ids.
class StripeSet {
 public:
  StripeSet(std::array<Mutex, kLockStripes>& stripes,
            std::vector<size_t> indexes) ABSL_NO_THREAD_SAFETY_ANALYSIS
      : stripes_(stripes),
        indexes_(std::move(indexes)) {
    std::sort(indexes_.begin(), indexes_.end());
    indexes_.erase(std::unique(indexes_.begin(), indexes_.end()), indexes_.end());
    for (size_t index : indexes_) stripes_[index].Lock();
  }
  ~StripeSet() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (size_t index : indexes_) stripes_[index].Unlock();
  }
  StripeSet(const StripeSet&) = delete;
  StripeSet& operator=(const StripeSet&) = delete;

 private:
  std::array<Mutex, kLockStripes>& stripes_;
  std::vector<size_t> indexes_;
};

// Small contents have no number that tells an old copy from a new one.
bool IsSameCopy(const ObjectRow& row, const ObjectRow& seen) {
  return row.file_number == seen.file_number &&
         (row.file_number != 0 || row.verified_at_micros == seen.verified_at_micros);
}

// Not OK, and not because the check could not be made.
bool IsBadCopy(const absl::Status& status) {
  return absl::IsNotFound(status) || GetReason(status) == Reason::kDataLoss;
}

// What a copy that is not sound makes of its row: only bytes that were seen condemn it.
RowState StateAfter(const absl::Status& bad) {
  return absl::IsNotFound(bad) || IsUnreadable(bad) ? RowState::kSuspect : RowState::kQuarantined;
}

}  // namespace

EngineCore::EngineCore(const LocalEngineOptions& options)
    : options_(options),
      pool_(options.pool != nullptr ? options.pool : BufferPool::Create(kIdlePoolBytes)),
      health_(std::make_unique<StoreHealth>(options.notice)) {}

EngineCore::~EngineCore() {
  if (payloads_ == nullptr || disk_ == nullptr || health_->failed()) return;
  ObjectIndex::Batch batch(*index_);
  batch.PutMeta(kUsageKey, EncodeUsage(usage_.Get()));
  // A failure was noticed; without counts the next opening walks the rows.
  index_->WriteSynced(batch).IgnoreError();
}

size_t EngineCore::StripeIndex(Domain domain, const ObjectId& id) const {
  return (ObjectIdHash()(id) + domain) % kLockStripes;
}

bool EngineCore::IsTrusted(const ObjectRow& row) const {
  int64_t age_micros = options_.clock->WallMicros() - row.verified_at_micros;
  // A time in the future is of a clock that was wrong.
  return row.state == RowState::kGood && age_micros >= 0 &&
         age_micros <= kVerifiedFor_s * 1'000'000;
}

absl::StatusOr<bool> EngineCore::RaiseTrusted(Domain domain, const ObjectId& id,
                                              Revision touched_rev) {
  MutexLock lock(StripeOf(domain, id));
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, index_->Get(domain, id));
  if (!row.has_value() || !IsTrusted(*row)) return false;
  if (row->touched_rev >= touched_rev) return true;
  row->touched_rev = touched_rev;
  ObjectIndex::Batch batch(*index_);
  batch.PutRow(domain, *row);
  TILEKV_RETURN_IF_ERROR(index_->WriteSynced(batch));
  return true;
}

absl::StatusOr<EngineCore::Commit> EngineCore::CommitRow(Domain domain, ObjectRow row,
                                                         std::optional<std::string> content) {
  std::vector<NewRow> rows;
  rows.push_back({row, std::move(content)});
  TILEKV_ASSIGN_OR_RETURN(std::vector<Commit> commits, CommitRows(domain, std::move(rows)));
  return commits.front();
}

absl::StatusOr<std::vector<EngineCore::Commit>> EngineCore::CommitRows(Domain domain,
                                                                       std::vector<NewRow> rows) {
  std::vector<ObjectRef> refs;
  std::vector<size_t> stripes;
  for (const NewRow& entry : rows) {
    refs.push_back(entry.row.ref);
    stripes.push_back(StripeIndex(domain, entry.row.ref.id));
  }
  StripeSet lock(stripes_, std::move(stripes));
  TILEKV_ASSIGN_OR_RETURN(std::vector<std::optional<ObjectRow>> olds,
                          index_->GetMany(domain, refs));
  std::vector<Commit> commits(rows.size());
  ObjectIndex::Batch batch(*index_);
  bool changes = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    ObjectRow& row = rows[i].row;
    const std::optional<ObjectRow>& old = olds[i];
    Commit& commit = commits[i];
    commit.was_good = old.has_value() && old->state == RowState::kGood;
    commit.used = !old.has_value() || !IsTrusted(*old);
    if (old.has_value()) row.touched_rev = std::max(row.touched_rev, old->touched_rev);
    if (commit.used) {
      row.verified_at_micros = options_.clock->WallMicros();
      batch.ReplaceRow(domain, old, row);
      if (rows[i].content.has_value()) batch.PutContent(domain, row.ref.id, *rows[i].content);
    } else if (old->touched_rev < row.touched_rev) {
      ObjectRow raised = *old;
      raised.touched_rev = row.touched_rev;
      batch.PutRow(domain, raised);
    } else {
      continue;
    }
    changes = true;
  }
  if (!changes) return commits;
  TILEKV_CRASH_POINT("put.before_row");
  TILEKV_RETURN_IF_ERROR(index_->WriteSynced(batch));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (commits[i].used) usage_.Replace(olds[i], rows[i].row);
  }
  TILEKV_CRASH_POINT("put.row");
  for (size_t i = 0; i < rows.size(); ++i) {
    if (commits[i].used && olds[i].has_value() && olds[i]->file_number != 0) {
      payloads_->Remove(olds[i]->file_number);
    }
  }
  return commits;
}

absl::StatusOr<EngineCore::Commit> EngineCore::ReplaceCopy(
    Domain domain, const ObjectRow& seen, ObjectRow row,
    const std::optional<std::string>& content) {
  MutexLock lock(StripeOf(domain, row.ref.id));
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> old, index_->Get(domain, row.ref.id));
  if (!old.has_value() || old->state != RowState::kGood || !IsSameCopy(*old, seen)) return Commit{};
  row.touched_rev = old->touched_rev;
  row.verified_at_micros = options_.clock->WallMicros();
  ObjectIndex::Batch batch(*index_);
  batch.ReplaceRow(domain, old, row);
  if (content.has_value()) batch.PutContent(domain, row.ref.id, *content);
  TILEKV_CRASH_POINT("recode.before_row");
  TILEKV_RETURN_IF_ERROR(index_->WriteSynced(batch));
  usage_.Replace(old, row);
  TILEKV_CRASH_POINT("recode.row");
  if (old->file_number != 0) payloads_->Remove(old->file_number);
  TILEKV_CRASH_POINT("recode.unlinked");
  return Commit{.used = true, .was_good = true};
}

absl::StatusOr<std::vector<LinkResult>> EngineCore::Link(Domain domain,
                                                         std::span<const ObjectRef> refs,
                                                         Revision touched_rev) {
  return LinkTo(domain, refs, [touched_rev](size_t) { return touched_rev; });
}

absl::StatusOr<std::vector<LinkResult>> EngineCore::LinkEach(Domain domain,
                                                             std::span<const TouchedRef> refs) {
  std::vector<ObjectRef> objects;
  objects.reserve(refs.size());
  for (const TouchedRef& each : refs) objects.push_back(each.ref);
  return LinkTo(domain, objects, [refs](size_t i) { return refs[i].touched_rev; });
}

absl::StatusOr<std::vector<LinkResult>> EngineCore::LinkTo(
    Domain domain, std::span<const ObjectRef> refs, const std::function<Revision(size_t)>& rev_of) {
  std::vector<LinkResult> results(refs.size());
  // What was synced before is safe, but raises are not: nothing may be counted on any more.
  if (health_->failed()) return results;
  TakeReports();
  std::vector<size_t> stripes;
  stripes.reserve(refs.size());
  for (const ObjectRef& ref : refs) stripes.push_back(StripeIndex(domain, ref.id));
  StripeSet lock(stripes_, std::move(stripes));
  TILEKV_ASSIGN_OR_RETURN(auto rows, index_->GetMany(domain, refs));
  ObjectIndex::Batch batch(*index_);
  bool raised = false;
  for (size_t i = 0; i < refs.size(); ++i) {
    std::optional<ObjectRow>& row = rows[i];
    if (!row.has_value() || row->state != RowState::kGood || row->ref != refs[i]) continue;
    results[i] = {.present = true, .trusted = IsTrusted(*row)};
    if (row->touched_rev >= rev_of(i)) continue;
    row->touched_rev = rev_of(i);
    batch.PutRow(domain, *row);
    raised = true;
  }
  if (!raised) return results;
  TILEKV_CRASH_POINT("link.before_row");
  TILEKV_RETURN_IF_ERROR(index_->WriteSynced(batch));
  TILEKV_CRASH_POINT("link.row");
  return results;
}

absl::StatusOr<std::vector<bool>> EngineCore::DeleteAllBelow(Domain domain,
                                                             std::span<const ObjectId> ids,
                                                             Revision fence) {
  return DeleteRows(
      domain, ids, [] { return true; },
      [fence](size_t, const ObjectRow& row) { return row.touched_rev < fence; });
}

absl::StatusOr<std::vector<bool>> EngineCore::DropUnchanged(
    Domain domain, std::span<const TouchedRef> seen, const std::function<bool()>& still_allowed) {
  std::vector<ObjectId> ids;
  ids.reserve(seen.size());
  for (const TouchedRef& each : seen) ids.push_back(each.ref.id);
  return DeleteRows(domain, ids, still_allowed, [seen](size_t i, const ObjectRow& row) {
    return row.ref == seen[i].ref && row.touched_rev == seen[i].touched_rev;
  });
}

absl::StatusOr<std::vector<bool>> EngineCore::DeleteRows(
    Domain domain, std::span<const ObjectId> ids, const std::function<bool()>& may,
    const std::function<bool(size_t, const ObjectRow&)>& goes) {
  TILEKV_RETURN_IF_ERROR(health_->CheckWritable());
  disk_->MakeRoomForDelete();
  std::vector<bool> deleted(ids.size());
  std::vector<ObjectRow> gone;
  std::vector<size_t> stripes;
  stripes.reserve(ids.size());
  for (const ObjectId& id : ids) stripes.push_back(StripeIndex(domain, id));
  {
    StripeSet lock(stripes_, std::move(stripes));
    if (!may()) return deleted;
    ObjectIndex::Batch batch(*index_);
    for (size_t i = 0; i < ids.size(); ++i) {
      TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, index_->Get(domain, ids[i]));
      if (!row.has_value() || !goes(i, *row)) continue;
      batch.DeleteRow(domain, *row);
      gone.push_back(*row);
      deleted[i] = true;
    }
    if (gone.empty()) return deleted;
    TILEKV_CRASH_POINT("delete.before_row");
    TILEKV_RETURN_IF_ERROR(index_->WriteSynced(batch));
    for (const ObjectRow& row : gone) usage_.Replace(row, std::nullopt);
  }
  TILEKV_CRASH_POINT("delete.row");
  for (const ObjectRow& row : gone) {
    if (row.file_number != 0) payloads_->Remove(row.file_number);
  }
  TILEKV_CRASH_POINT("delete.unlinked");
  return deleted;
}

absl::StatusOr<bool> EngineCore::SetState(Domain domain, const ObjectRow& seen, RowState state) {
  MutexLock lock(StripeOf(domain, seen.ref.id));
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, index_->Get(domain, seen.ref.id));
  if (!row.has_value() || !IsSameCopy(*row, seen)) return false;
  // What has failed a check stays so until it passes one, or new bytes come.
  if (state == RowState::kSuspect && row->state != RowState::kGood) return true;
  std::optional<ObjectRow> old = row;
  row->state = state;
  if (state != RowState::kSuspect) row->verified_at_micros = options_.clock->WallMicros();
  ObjectIndex::Batch batch(*index_);
  batch.PutRow(domain, *row);
  TILEKV_CRASH_POINT("state.before_row");
  TILEKV_RETURN_IF_ERROR(index_->WriteSynced(batch));
  TILEKV_CRASH_POINT("state.row");
  usage_.Replace(old, row);
  return true;
}

absl::Status EngineCore::SettleRevisions(Domain domain, Revision revision) {
  TILEKV_ASSIGN_OR_RETURN(auto unsettled, index_->GetMeta(kUnsettledKey));
  if (!unsettled.has_value()) return absl::OkStatus();
  std::optional<ObjectId> after;
  while (true) {
    ObjectIndex::Batch batch(*index_);
    size_t seen = 0;
    TILEKV_RETURN_IF_ERROR(index_->Scan(domain, after, [&](const ObjectRow& row) {
      if (row.touched_rev == kUnsettledRevision) {
        ObjectRow settled = row;
        settled.touched_rev = revision;
        batch.PutRow(domain, settled);
      }
      after = row.ref.id;
      return ++seen < kRowsAtOnce;
    }));
    if (seen == 0) break;
    TILEKV_RETURN_IF_ERROR(index_->WriteSynced(batch));
  }
  ObjectIndex::Batch done(*index_);
  done.DeleteMeta(kUnsettledKey);
  return index_->WriteSynced(done);
}

void EngineCore::NoteDirect(bool direct) {
  if (direct || buffered_noticed_.exchange(true)) return;
  health_->Notice(fmt::format("the file system of '{}' refuses direct I/O: writes are buffered",
                              Printable(options_.directory)));
}

bool EngineCore::OnDamage(Domain domain, const ObjectRow& row) {
  // Where it cannot be written the reader still has its error.
  absl::StatusOr<bool> marked = SetState(domain, row, RowState::kSuspect);
  if (marked.ok() && !*marked) return true;  // the object has another copy by now
  health_->Notice(fmt::format("a read of object {} met damage; {}", row.ref.id.Hex(),
                              marked.ok() ? "it is now suspect" : "it could not be marked"));
  return marked.ok();
}

absl::StatusOr<std::shared_ptr<ObjectReader>> EngineCore::OpenRow(Domain domain,
                                                                  const ObjectRow& row,
                                                                  bool report_damage) {
  DamageReport report;
  if (report_damage) report = [this, domain](const ObjectRow& bad) { OnDamage(domain, bad); };
  if (row.file_number != 0) {
    return OpenPayload(options_.file_system, payloads_->PathOf(row.file_number),
                       superblock_.store_uuid, domain, row, std::move(report));
  }
  TILEKV_ASSIGN_OR_RETURN(auto value, index_->GetContent(domain, row.ref.id));
  if (!value.has_value()) return ObjectNotFound(row.ref.id);
  return OpenSmallContent(*std::move(value), row, std::move(report));
}

absl::StatusOr<std::shared_ptr<ObjectReader>> EngineCore::OpenCopy(Domain domain,
                                                                   const ObjectId& id) {
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, index_->Get(domain, id));
    if (!row.has_value()) return ObjectNotFound(id);
    if (row->state == RowState::kQuarantined) {
      return MakeError(Reason::kNotFound,
                       fmt::format("object {} is not here: its copy failed a check and is kept "
                                   "apart until the object is stored again",
                                   id.Hex()));
    }
    auto copy = OpenRow(domain, *row, /*report_damage=*/true);
    if (copy.ok() || !IsBadCopy(copy.status())) return copy;
    // Deleted or replaced between the two steps, or really damaged: the row tells.
    // Where the mark cannot be written the reader still has its error.
    absl::StatusOr<bool> still_there = MarkBad(domain, *row, copy.status());
    if (still_there.ok() && !*still_there) continue;
    return absl::IsNotFound(copy.status()) ? ObjectDamaged(row->ref, "its payload is gone")
                                           : copy.status();
  }
}

absl::Status EngineCore::CheckCopy(Domain domain, const ObjectRow& row) {
  std::shared_ptr<ObjectReader> copy;
  if (row.file_number != 0) {
    TILEKV_ASSIGN_OR_RETURN(
        auto file, OpenUncached(options_.file_system, payloads_->PathOf(row.file_number), pool_));
    TILEKV_ASSIGN_OR_RETURN(
        copy, OpenPayload(std::move(file), superblock_.store_uuid, domain, row, nullptr));
  } else {
    TILEKV_ASSIGN_OR_RETURN(copy, OpenRow(domain, row, /*report_damage=*/false));
  }
  Buffer buffer = pool_->Get(std::min(row.ref.length, kVerifyStepBytes));
  absl::Status status = VerifyLeafTable(row.ref, copy->leaves());
  for (uint64_t at = 0; status.ok() && at < row.ref.length; at += kVerifyStepBytes) {
    uint64_t step = std::min(kVerifyStepBytes, row.ref.length - at);
    status = ReadContent(*copy, at, buffer.span().first(step), *pool_);
  }
  return status;
}

absl::StatusOr<bool> EngineCore::Verify(Domain domain, const ObjectId& id) {
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, index_->Get(domain, id));
    if (!row.has_value()) return ObjectNotFound(id);
    absl::Status checked = CheckCopy(domain, *row);
    bool bad = IsBadCopy(checked);
    if (!checked.ok() && !bad) return checked;
    TILEKV_ASSIGN_OR_RETURN(
        bool same, bad ? MarkBad(domain, *row, checked) : SetState(domain, *row, RowState::kGood));
    if (same) return !bad;
  }
}

absl::StatusOr<bool> EngineCore::MarkBad(Domain domain, const ObjectRow& row,
                                         const absl::Status& bad) {
  RowState state = StateAfter(bad);
  absl::StatusOr<bool> marked = SetState(domain, row, state);
  if (marked.ok() && !*marked) return marked;
  // That what is suspect still cannot be read is no news.
  if (state == RowState::kQuarantined || row.state == RowState::kGood) {
    health_->Notice(fmt::format("object {} is {}: {}", row.ref.id.Hex(),
                                state == RowState::kSuspect ? "suspect" : "quarantined",
                                ErrorText(bad)));
  }
  return marked;
}

void EngineCore::TakeReports() {
  if (health_->failed()) return;  // nothing can be marked
  MutexLock lock(reports_mutex_);
  FileSystem& fs = *options_.file_system;
  for (const DamageReported& damaged : ListDamageReports(fs, options_.directory)) {
    if (unremovable_reports_.count(damaged) != 0) continue;
    absl::StatusOr<std::optional<ObjectRow>> row = index_->Get(damaged.domain, damaged.id);
    if (!row.ok()) continue;
    bool good = row->has_value() && (*row)->state == RowState::kGood;
    if (good && !OnDamage(damaged.domain, **row)) continue;
    absl::Status removed = RemoveDamageReport(fs, options_.directory, damaged);
    if (removed.ok()) continue;
    if (unremovable_reports_.empty()) {
      health_->Notice(
          fmt::format("reports of damage in 'suspect' cannot be removed: {}. Give the folder to "
                      "the user who writes to the store",
                      ErrorText(removed)));
    }
    unremovable_reports_.insert(damaged);
  }
}

absl::Status EngineCore::CheckCopies(Domain domain, bool repair, const CopyProblemFound& found,
                                     const CallContext& context) {
  CopyCheckParts parts{.file_system = options_.file_system,
                       .index = index_.get(),
                       .directory = options_.directory,
                       .store_uuid = superblock_.store_uuid,
                       .refresh = nullptr};
  const uint64_t changes = usage_.changes();
  auto on_bad = [&](const ObjectRow& row, CopyProblem problem) -> absl::Status {
    if (repair && problem.kind == kIndexProblem) {
      TILEKV_ASSIGN_OR_RETURN(problem.repaired, NameFileAgain(domain, row));
    } else if (problem.kind != kIndexProblem) {
      // Kept, whatever is left of it: it may be all there is.
      bool seen = repair && problem.kind == kPayloadProblem;
      RowState state = seen ? RowState::kQuarantined : RowState::kSuspect;
      absl::Status marked = SetState(domain, row, state).status();
      // A store that only looks finds the same without the mark.
      if (repair) TILEKV_RETURN_IF_ERROR(marked);
    }
    found(problem);
    return absl::OkStatus();
  };
  TILEKV_ASSIGN_OR_RETURN(CopyCheckResult result, CheckAllCopies(parts, domain, on_bad, context));
  if (result.unreadable.ok()) {
    CheckCounts(result.counted, changes, repair, found);
  } else {
    found(IndexDamaged(result.unreadable));
  }
  TILEKV_ASSIGN_OR_RETURN(bool in_doubt, payloads_->InDoubt());
  if (in_doubt) {
    found({.kind = "log",
           .id = std::nullopt,
           .text =
               "an opening left out the end of the index's log, which was torn or damaged: files "
               "that belong to no object are kept until 'fsck --content' finds all that names "
               "need, or 'fsck --rebuild-index' has taken them in"});
  }
  absl::Status visited =
      payloads_->VisitUnnamed([&](uint64_t number, const std::string& path) -> absl::Status {
        CopyProblem problem{
            .kind = "orphan-file",
            .id = std::nullopt,
            .text = fmt::format("payload file {} belongs to no object: a put that ended half-way",
                                number)};
        if (repair && !in_doubt) {
          absl::Status removed = options_.file_system->Unlink(path);
          if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
          problem.repaired = true;
        }
        found(problem);
        return absl::OkStatus();
      });
  // Where all files are gone their rows have told it.
  if (absl::IsNotFound(visited)) return absl::OkStatus();
  if (GetReason(visited) != Reason::kDataLoss) return visited;
  found(IndexDamaged(visited));
  return absl::OkStatus();
}

void EngineCore::CheckCounts(const StoreUsage& counted, uint64_t changes, bool repair,
                             const CopyProblemFound& found) {
  StoreUsage kept = usage_.Get();
  // A store that others changed meanwhile tells nothing.
  if (usage_.changes() != changes ||
      (counted.objects == kept.objects && counted.content_bytes == kept.content_bytes &&
       counted.stored_bytes == kept.stored_bytes)) {
    return;
  }
  found({.kind = "counts",
         .id = std::nullopt,
         .text =
             fmt::format("the store counts {} objects with {} bytes; there are {} with {}",
                         kept.objects, kept.content_bytes, counted.objects, counted.content_bytes),
         .repaired = repair && usage_.SetCounted(counted, changes)});
}

absl::StatusOr<bool> EngineCore::NameFileAgain(Domain domain, const ObjectRow& seen) {
  MutexLock lock(StripeOf(domain, seen.ref.id));
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, index_->Get(domain, seen.ref.id));
  if (!row.has_value() || !IsSameCopy(*row, seen)) return false;
  ObjectIndex::Batch batch(*index_);
  batch.ReplaceRow(domain, std::nullopt, *row);
  TILEKV_RETURN_IF_ERROR(index_->WriteSynced(batch));
  return true;
}

}  // namespace tilekv
