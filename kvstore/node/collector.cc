#include "kvstore/node/collector.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/freed.h"
#include "kvstore/node/tree_walk.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr int64_t kMicrosPerSecond = 1'000'000;
constexpr int64_t kMicrosPerMilli = 1'000;
constexpr int kMaxRestarts = 3;
constexpr size_t kSweepBatch = 1'024;
constexpr size_t kRowsAtOnce = 16 * kSweepBatch;  // read between two looks at the caller's context

// Versions deleted up to then are purged.
int64_t GraceOverMicros(NodeContext& node) {
  return node.clock.WallMicros() - kDeleteGrace_s * kMicrosPerSecond;
}

// Of a held round. Where the catalog was in doubt when it was given, its end is the number of the
// log: that stands for no later doubt.
constexpr size_t kRoundBytes = 16;
std::string HeldName(const std::string& round, uint64_t log_in_doubt) {
  std::string name = round;
  if (log_in_doubt != 0) AppendBe64(name, log_in_doubt);
  return name;
}
uint64_t LogInDoubtOf(const std::string& name) {
  bool has_log = name.size() == kRoundBytes + sizeof(uint64_t);
  return has_log ? LoadBe64(AsBytes(name).data() + kRoundBytes) : 0;
}

// Of a round that deletes nothing as the catalog is in doubt.
absl::Status CatalogInDoubt(uint64_t log, const std::string& name, uint64_t lost_bytes) {
  std::string lost;
  if (lost_bytes > 0) lost = fmt::format(", and what names need fell by {} bytes", lost_bytes);
  return MakeError(
      Reason::kDataLoss,
      fmt::format(
          "the round is held and nothing was deleted, since an opening left out the end of "
          "the catalog's log (catalog/DROPPED-{}), which was torn or damaged: the newest names may "
          "be missing{}. Look at 'tilekv ls' and 'tilekv store gc --dry-run', store what "
          "is missing again or bring the catalog back from a backup, and if all is right: "
          "tilekv store gc --confirm {}",
          log, lost, HexEncode(AsBytes(name))));
}

bool IsTooMuch(uint64_t lost, uint64_t of) {
  return lost > kCollectHoldBytes && lost > of / 100 * kCollectHoldPercent;
}

}  // namespace

struct Collector::Round {
  std::string value;  // random: tells this round from every other
  Revision record_mod;
  Revision fence;
  Revision snapshot;          // S
  uint64_t log_in_doubt = 0;  // of the catalog; 0: it is in no doubt
  std::optional<LiveList> live;
  // Of a dry run: versions deleted up to then would have been purged; 0: none.
  int64_t would_purge_micros = 0;
  std::optional<TreeWalk> walk;            // over all records: a shared tree is read once
  SharedCollection::Turn* turn = nullptr;  // in a cluster, of a round that is not dry
  Revision snapshot_before;                // of the round before
};

absl::Status Collector::Start() {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node_.catalog.Get(kRoundKey));
  v1::RoundRecord record;
  if (entry && record.ParseFromString(entry->value)) {
    sessions_.RaiseFence({record.fence()});
    held_ = !record.held().empty();
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Collector::DueIn_ms(int64_t every_ms) {
  TILEKV_ASSIGN_OR_RETURN(v1::RoundRecord record, ReadRecord());
  held_ = !record.held().empty();
  const int64_t since_ms = (node_.clock.WallMicros() - record.started_micros()) / kMicrosPerMilli;
  return std::clamp<int64_t>(every_ms - since_ms, 0, every_ms);
}

absl::Status Collector::Purge(v1::CollectResponse& response, bool dry_run) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogSnapshot> snapshot, node_.catalog.Snapshot());
  int64_t over = GraceOverMicros(node_);
  TILEKV_RETURN_IF_ERROR(VisitVersions(*snapshot, [&](const VersionEntry& version) -> absl::Status {
    int64_t deleted = version.record.deleted_micros();
    if (deleted == 0 || deleted > over) return absl::OkStatus();
    bool purged = dry_run;
    if (!dry_run) {
      TILEKV_CRASH_POINT("collector.before_purge");
      TILEKV_ASSIGN_OR_RETURN(
          purged, models_.Purge(version.ns, version.name, version.record.number(), version.mod));
    }
    if (purged) response.set_purged_versions(response.purged_versions() + 1);
    return absl::OkStatus();
  }));
  return dry_run ? absl::OkStatus() : PurgeCommitRecords(*snapshot);
}

absl::Status Collector::PurgeCommitRecords(CatalogSnapshot& snapshot) {
  int64_t over = node_.clock.WallMicros() - kCommitRecord_s * kMicrosPerSecond;
  KeyRange range = CommitRange();
  return VisitEntries(
      snapshot, range.start, range.end, [&](const CatalogEntry& entry) -> absl::Status {
        v1::CommitRecord record;
        if (!record.ParseFromString(entry.value) || record.created_micros() > over) {
          return absl::OkStatus();
        }
        return node_
            .Txn({.compares = {Compare::Mod(entry.key, entry.mod_revision)},
                  .writes = {CatalogWrite::Delete(entry.key)}},
                 TxnPurpose::kRemove)
            .status();
      });
}

absl::Status Collector::BeginRound(Round& round) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node_.catalog.Get(kRoundKey));
  v1::RoundRecord record;
  if (entry && !record.ParseFromString(entry->value)) record.Clear();
  round.value = node_.random.Bytes(kRoundBytes);
  record.set_value(round.value);
  record.set_started_micros(node_.clock.WallMicros());
  record.set_state(v1::ROUND_STATE_FINDING);
  record.set_line_id(node_.line_id());
  TILEKV_ASSIGN_OR_RETURN(
      TxnResult result,
      node_.Txn({.compares = {Compare::Mod(kRoundKey, entry ? entry->mod_revision : Revision{})},
                 .writes = {CatalogWrite::Put(kRoundKey, record.SerializeAsString())}},
                TxnPurpose::kRemove));
  if (!result.applied) {
    return MakeError(Reason::kOverloaded, "another collector began a round at the same time");
  }
  round.record_mod = result.revision;
  return absl::OkStatus();
}

absl::Status Collector::FindFence(Round& round, CatalogSnapshot& snapshot,
                                  v1::CollectResponse& response) {
  round.snapshot = snapshot.revision();
  round.fence = round.snapshot.Next();
  KeyRange range = SessionRange();
  TILEKV_RETURN_IF_ERROR(
      VisitEntries(snapshot, range.start, range.end, [&](const CatalogEntry& entry) {
        round.fence = std::min(round.fence, entry.create_revision);
        v1::SessionRecord record;
        if (record.ParseFromString(entry.value)) response.add_sessions(record.holder());
        return absl::OkStatus();
      }));
  response.set_fence(round.fence.value);
  return absl::OkStatus();
}

absl::StatusOr<bool> Collector::AddReachable(Round& round, const v1::ObjectRef& ref,
                                             const std::string& catalog_key, Revision mod,
                                             const std::string& whose, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(GoOn(round, context));
  TILEKV_ASSIGN_OR_RETURN(ObjectRef root, ObjectRefFromWire(ref));
  TreeVisitor visitor;
  absl::Status kept;
  visitor.visit = [&](const ObjectRef& met) {
    if (kept.ok()) kept = round.live->Add(met);
    return kept.ok();
  };
  std::string unreadable;
  visitor.unreadable = [&](const ObjectRef& met, const absl::Status& status) {
    unreadable = fmt::format("tree {} of {}", met.id.Hex(), whose);
    return status;
  };
  absl::Status walked = round.walk->Walk(root, visitor, context);
  TILEKV_RETURN_IF_ERROR(kept);
  if (walked.ok()) return true;
  if (unreadable.empty()) return walked;
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> now, node_.catalog.Get(catalog_key));
  if (!now || now->mod_revision != mod) return false;
  return WithContext(
      walked, fmt::format("the round ends and nothing was deleted, since {} cannot be read. Store "
                          "it again from its source, or delete the name that needs it; 'tilekv "
                          "store fsck' lists everything that is damaged",
                          unreadable));
}

absl::StatusOr<bool> Collector::FindLive(Round& round, CatalogSnapshot& snapshot,
                                         const CallContext& context) {
  round.live.emplace(node_.scratch, kCollectMemoryBytes);
  round.walk.emplace(node_);
  bool whole = true;
  auto add = [&](const v1::ObjectRef& ref, const std::string& key, Revision mod,
                 const std::string& whose) -> absl::Status {
    if (!whole) return absl::OkStatus();
    TILEKV_ASSIGN_OR_RETURN(whole, AddReachable(round, ref, key, mod, whose, context));
    return absl::OkStatus();
  };
  TILEKV_RETURN_IF_ERROR(VisitVersions(snapshot, [&](const VersionEntry& version) {
    int64_t deleted = version.record.deleted_micros();
    if (deleted != 0 && deleted <= round.would_purge_micros) return absl::OkStatus();
    return add(version.record.commit(),
               VersionKey(version.ns, version.name, version.record.number()), version.mod,
               WhoseText(version));
  }));
  TILEKV_RETURN_IF_ERROR(VisitValueObjects(snapshot, [&](const ValueEntry& value) {
    return add(value.record.object(), ValueKey(value.key), value.mod, WhoseText(value));
  }));
  if (!whole) return false;
  TILEKV_RETURN_IF_ERROR(round.live->Finish());
  return true;
}

absl::StatusOr<v1::RoundRecord> Collector::ReadRecord() {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node_.catalog.Get(kRoundKey));
  v1::RoundRecord record;
  if (entry && !record.ParseFromString(entry->value)) record.Clear();
  return record;
}

absl::Status Collector::WriteRecord(Round& round, const v1::RoundRecord& record) {
  TILEKV_ASSIGN_OR_RETURN(
      TxnResult result,
      node_.Txn({.compares = {Compare::Mod(kRoundKey, round.record_mod)},
                 .writes = {CatalogWrite::Put(kRoundKey, record.SerializeAsString())}},
                TxnPurpose::kRemove));
  if (!result.applied) return MakeError(Reason::kOverloaded, "another round has begun");
  round.record_mod = result.revision;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Collector::Unexplained(Round& round, CatalogSnapshot& snapshot,
                                                uint64_t live_bytes_before,
                                                Revision snapshot_before,
                                                const CallContext& context) {
  uint64_t live = round.live->bytes();
  uint64_t lost = live_bytes_before - std::min(live_bytes_before, live);
  if (!IsTooMuch(lost, live_bytes_before)) return 0;
  TILEKV_ASSIGN_OR_RETURN(uint64_t freed, FreedBytes(node_, snapshot, snapshot_before, *round.live,
                                                     *round.walk, context));
  lost -= std::min(lost, freed);
  return IsTooMuch(lost, live_bytes_before) ? lost : 0;
}

absl::StatusOr<bool> Collector::CheckLoss(Round& round, CatalogSnapshot& snapshot,
                                          const v1::CollectRequest& request,
                                          v1::CollectResponse& response,
                                          const CallContext& context) {
  TILEKV_ASSIGN_OR_RETURN(v1::RoundRecord record, ReadRecord());
  bool confirmed = !request.confirm().empty();
  if (confirmed && request.confirm() != record.held()) {
    return MakeError(Reason::kInvalidArgument,
                     record.held().empty()
                         ? "no round is held: there is nothing to confirm"
                         : fmt::format("the round that is held is {}; look at what it would delete "
                                       "before you confirm it",
                                       HexEncode(AsBytes(record.held()))));
  }
  // It keeps its name while it is held, so that what was read in a log can be confirmed, and stands
  // for no more than that.
  bool further_loss = record.held().empty() || round.log_in_doubt > LogInDoubtOf(record.held());
  if (!further_loss) {
    TILEKV_ASSIGN_OR_RETURN(uint64_t further, Unexplained(round, snapshot, record.held_live_bytes(),
                                                          {record.held_snapshot_rev()}, context));
    further_loss = further > 0;
  }
  if (confirmed && !further_loss) return true;
  TILEKV_ASSIGN_OR_RETURN(uint64_t lost, Unexplained(round, snapshot, record.live_bytes(),
                                                     {record.snapshot_rev()}, context));
  if (lost == 0 && round.log_in_doubt == 0) return true;
  response.set_unexplained_bytes(lost);
  if (!node_.holds_rounds && round.log_in_doubt == 0) return true;
  response.set_held(true);
  if (request.dry_run()) {  // what it would delete is told
    if (!further_loss) response.set_round(record.held());
    return true;
  }
  TILEKV_RETURN_IF_ERROR(Hold(round, record, further_loss));
  if (round.log_in_doubt != 0) return CatalogInDoubt(round.log_in_doubt, record.held(), lost);
  response.set_round(record.held());
  return false;
}

absl::Status Collector::Hold(Round& round, v1::RoundRecord& record, bool further_loss) {
  if (further_loss) record.set_held(HeldName(round.value, round.log_in_doubt));
  // What is added under a name may not go unseen either.
  if (further_loss || round.live->bytes() >= record.held_live_bytes()) {
    record.set_held_live_bytes(round.live->bytes());
    record.set_held_snapshot_rev(round.snapshot.value);
  }
  record.set_state(v1::ROUND_STATE_HELD);
  TILEKV_RETURN_IF_ERROR(WriteRecord(round, record));
  held_ = true;
  return absl::OkStatus();
}

absl::Status Collector::StoreFence(Round& round) {
  TILEKV_ASSIGN_OR_RETURN(v1::RoundRecord record, ReadRecord());
  round.snapshot_before = {record.snapshot_rev()};
  record.set_state(v1::ROUND_STATE_IN_FORCE);
  record.set_fence(round.fence.value);
  record.set_live_bytes(round.live->bytes());
  record.set_snapshot_rev(round.snapshot.value);
  record.clear_held();
  record.clear_held_live_bytes();
  record.clear_held_snapshot_rev();
  TILEKV_RETURN_IF_ERROR(WriteRecord(round, record));
  sessions_.RaiseFence(round.fence);
  held_ = false;
  return absl::OkStatus();
}

absl::Status Collector::GoOn(const Round& round, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  return round.turn == nullptr ? absl::OkStatus() : round.turn->Renew();
}

absl::StatusOr<bool> Collector::IsCurrent(const Round& round) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node_.catalog.Get(kRoundKey));
  return entry && entry->mod_revision == round.record_mod;
}

absl::Status Collector::DeleteBatch(const Round& round, const std::vector<ObjectRow>& batch,
                                    v1::CollectResponse& response) {
  TILEKV_ASSIGN_OR_RETURN(bool current, IsCurrent(round));
  if (!current) return MakeError(Reason::kOverloaded, "another round has begun");
  std::vector<ObjectId> ids;
  ids.reserve(batch.size());
  for (const ObjectRow& row : batch) ids.push_back(row.ref.id);
  TILEKV_CRASH_POINT("collector.before_delete");
  TILEKV_ASSIGN_OR_RETURN(std::vector<bool> deleted,
                          node_.objects.DeleteAllBelow(node_.domain, ids, round.fence));
  for (size_t i = 0; i < batch.size(); ++i) {
    if (!deleted[i]) {
      response.set_kept_by_sessions(response.kept_by_sessions() + 1);
      continue;
    }
    response.set_deleted_objects(response.deleted_objects() + 1);
    response.set_deleted_bytes(response.deleted_bytes() + batch[i].ref.length);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Collector::NextBatch(const Round& round, LiveList::Cursor& live,
                                          std::optional<ObjectId>& after,
                                          std::vector<ObjectRow>& batch,
                                          v1::CollectResponse& response) {
  batch.clear();
  size_t read = 0;
  bool more = false;
  absl::Status failed;
  TILEKV_RETURN_IF_ERROR(node_.objects.Scan(node_.domain, after, [&](const ObjectRow& row) {
    if (batch.size() == kSweepBatch || read++ == kRowsAtOnce) {
      more = true;
      return false;
    }
    after = row.ref.id;
    absl::StatusOr<bool> is_live = live.Contains(row.ref.id.Prefix64());
    if (!is_live.ok()) {
      failed = is_live.status();
      return false;
    }
    if (*is_live) return true;
    if (row.touched_rev >= round.fence) {
      response.set_kept_by_sessions(response.kept_by_sessions() + 1);
    } else {
      batch.push_back(row);
    }
    return true;
  }));
  TILEKV_RETURN_IF_ERROR(failed);
  return more;
}

absl::Status Collector::Sweep(const Round& round, bool dry_run, v1::CollectResponse& response,
                              const CallContext& context) {
  if (node_.collection == nullptr) return SweepOwn(round, dry_run, response, context);
  const RoundName name{.id = dry_run ? node_.random.Bytes(kRoundBytes) : round.value,
                       .line_id = node_.line_id(),
                       .snapshot = round.snapshot,
                       .fence = round.fence};
  absl::Status swept =
      node_.collection->Sweep(node_.domain, name, *round.live, round.turn, response, context);
  if (GetReason(swept) != Reason::kVersionConflict) return swept;
  return MakeError(Reason::kOverloaded, std::string(swept.message()));
}

absl::Status Collector::SweepOwn(const Round& round, bool dry_run, v1::CollectResponse& response,
                                 const CallContext& context) {
  std::optional<ObjectId> after;
  LiveList::Cursor live(*round.live);  // in order of id, as the rows are
  std::vector<ObjectRow> batch;
  bool more = true;
  while (more) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    TILEKV_ASSIGN_OR_RETURN(more, NextBatch(round, live, after, batch, response));
    if (!dry_run) {
      TILEKV_RETURN_IF_ERROR(DeleteBatch(round, batch, response));
      continue;
    }
    for (const ObjectRow& row : batch) {
      response.set_deleted_objects(response.deleted_objects() + 1);
      response.set_deleted_bytes(response.deleted_bytes() + row.ref.length);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::CollectResponse> Collector::Collect(const v1::CollectRequest& request,
                                                       const CallContext& context) {
  if (request.dry_run() && (request.end_sessions() || !request.confirm().empty())) {
    return MakeError(Reason::kInvalidArgument, "a dry run ends no sessions and confirms nothing");
  }
  // Nobody waits here, deaf to their deadline, with a thread of the node.
  if (running_.exchange(true)) {
    return MakeError(Reason::kOverloaded, "a collector's round is running; try again after it");
  }
  absl::StatusOr<v1::CollectResponse> response = RunRound(request, context);
  running_ = false;
  return response;
}

absl::StatusOr<v1::CollectResponse> Collector::RunRound(const v1::CollectRequest& request,
                                                        const CallContext& context) {
  if (request.end_sessions()) TILEKV_RETURN_IF_ERROR(sessions_.EndUploads().status());
  std::unique_ptr<SharedCollection::Turn> turn;
  if (node_.collection != nullptr && !request.dry_run()) {
    TILEKV_ASSIGN_OR_RETURN(turn, node_.collection->TakeTurn());
  }
  bool compacted = false;
  for (int restarts = 0; restarts < kMaxRestarts; ++restarts) {
    auto response = TryRound(request, turn.get(), context);
    if (response.ok() && response->has_value()) return **std::move(response);
    if (response.ok()) continue;
    if (!IsCompacted(response.status())) return response.status();
    if (std::exchange(compacted, true)) {  // once may be chance
      return MakeError(Reason::kInternal,
                       "the catalog was compacted under the round, twice in a row: nothing but the "
                       "collector is to compact etcd; switch its auto-compaction off");
    }
  }
  return MakeError(
      Reason::kOverloaded,
      fmt::format("names changed under the round {} times in a row; try again", kMaxRestarts));
}

absl::StatusOr<std::optional<v1::CollectResponse>> Collector::TryRound(
    const v1::CollectRequest& request, SharedCollection::Turn* turn, const CallContext& context) {
  v1::CollectResponse response;
  Round round;
  round.turn = turn;
  TILEKV_ASSIGN_OR_RETURN(round.log_in_doubt, node_.catalog.LogInDoubt());
  // What is missing may be that a version was undeleted.
  if (request.dry_run() || round.log_in_doubt == 0) {
    TILEKV_RETURN_IF_ERROR(Purge(response, request.dry_run()));
  }
  TILEKV_CRASH_POINT("collector.purged");
  if (request.dry_run()) {
    round.would_purge_micros = GraceOverMicros(node_);
  } else {
    rolling_.Replace();
    TILEKV_RETURN_IF_ERROR(BeginRound(round));
    TILEKV_CRASH_POINT("collector.began");
  }
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogSnapshot> snapshot, node_.catalog.Snapshot());
  TILEKV_RETURN_IF_ERROR(FindFence(round, *snapshot, response));
  TILEKV_ASSIGN_OR_RETURN(bool whole, FindLive(round, *snapshot, context));
  if (!whole) return std::nullopt;
  response.set_live_objects(round.live->objects());
  response.set_live_bytes(round.live->bytes());
  TILEKV_ASSIGN_OR_RETURN(bool goes_on, CheckLoss(round, *snapshot, request, response, context));
  if (!goes_on) return response;
  snapshot.reset();
  round.walk.reset();
  TILEKV_CRASH_POINT("collector.live_found");
  if (!request.dry_run()) {
    TILEKV_RETURN_IF_ERROR(StoreFence(round));
    // It was confirmed.
    if (round.log_in_doubt != 0) TILEKV_RETURN_IF_ERROR(node_.catalog.EndDoubt());
  }
  TILEKV_CRASH_POINT("collector.fence_stored");
  TILEKV_RETURN_IF_ERROR(Sweep(round, request.dry_run(), response, context));
  TILEKV_CRASH_POINT("collector.swept");
  if (request.dry_run()) return response;
  TILEKV_RETURN_IF_ERROR(RemoveFreed(node_, round.snapshot));
  TILEKV_CRASH_POINT("collector.freed_removed");
  TILEKV_RETURN_IF_ERROR(node_.objects.RemoveUnnamedFiles().status());
  // What was read since the round before is kept: others may read it still.
  if (node_.collection != nullptr && round.snapshot_before.value > 0) {
    node_.catalog.Compact(round.snapshot_before).IgnoreError();  // the next round tries again
  }
  return response;
}

}  // namespace tilekv
