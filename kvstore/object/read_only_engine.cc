#include "kvstore/object/read_only_engine.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/object/copy_check.h"
#include "kvstore/object/damage_reports.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/object_index.h"
#include "kvstore/object/payload_directory.h"
#include "kvstore/object/stored_copy.h"
#include "kvstore/object/superblock.h"
#include "kvstore/object/usage_counter.h"

namespace tilekv {
namespace {

absl::Status ReadOnly() {
  return MakeError(Reason::kPermissionDenied, "this store is open for reading only");
}

bool IsSameCopy(const std::optional<ObjectRow>& a, const std::optional<ObjectRow>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return a->file_number == b->file_number && a->state == b->state &&
         a->verified_at_micros == b->verified_at_micros;
}

bool IsMiss(const absl::Status& status) {
  return absl::IsNotFound(status) || GetReason(status) == Reason::kDataLoss;
}

constexpr int kMostReports = 1'024;

}  // namespace

absl::StatusOr<std::unique_ptr<ReadOnlyEngine>> ReadOnlyEngine::Open(
    const LocalEngineOptions& options) {
  FileSystem& fs = *options.file_system;
  TILEKV_RETURN_IF_ERROR(CheckStoreDirectory(fs, options.directory));
  TILEKV_ASSIGN_OR_RETURN(auto superblock, LoadSuperblock(fs, options.directory));
  if (!superblock.has_value()) {
    TILEKV_RETURN_IF_ERROR(CheckMayBecomeStore(fs, options.directory));
    return NoStoreIn(options.directory);
  }
  TILEKV_RETURN_IF_ERROR(CheckCluster(*superblock, options.directory, options.cluster_uuid));
  TILEKV_RETURN_IF_ERROR(CheckLimit(*superblock, options.max_object_bytes));
  TILEKV_ASSIGN_OR_RETURN(bool has_index, fs.Exists(options.directory + "/index/CURRENT"));
  TILEKV_ASSIGN_OR_RETURN(bool has_catalog, fs.Exists(options.directory + "/catalog/CURRENT"));
  if (!has_index && has_catalog) {  // which is made after the index
    return MakeError(Reason::kDataLoss,
                     fmt::format("'{}' has lost its index; 'tilekv store fsck --rebuild-index' "
                                 "makes one from the payload files",
                                 Printable(options.directory)));
  }
  TILEKV_ASSIGN_OR_RETURN(
      auto index, ObjectIndex::OpenReader(options.directory + "/index", options.rocksdb_env));
  return std::unique_ptr<ReadOnlyEngine>(new ReadOnlyEngine(
      options, std::make_unique<Superblock>(*std::move(superblock)), std::move(index)));
}

ReadOnlyEngine::ReadOnlyEngine(const LocalEngineOptions& options,
                               std::unique_ptr<Superblock> superblock,
                               std::unique_ptr<ObjectIndex> index)
    : options_(options), superblock_(std::move(superblock)), index_(std::move(index)) {}
ReadOnlyEngine::~ReadOnlyEngine() = default;

absl::Status ReadOnlyEngine::Refresh() { return index_->Refresh(); }
uint64_t ReadOnlyEngine::max_object_bytes() const { return superblock_->max_object_bytes; }
const std::string& ReadOnlyEngine::store_uuid() const { return superblock_->store_uuid; }

void ReadOnlyEngine::Report(Domain domain, const ObjectId& id) {
  if (reports_.fetch_add(1) >= kMostReports) return;
  LeaveDamageReport(*options_.file_system, options_.directory, {domain, id});
}

absl::StatusOr<std::shared_ptr<ObjectReader>> ReadOnlyEngine::OpenAsSeen(Domain domain,
                                                                         const ObjectId& id) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, index_->Get(domain, id));
  if (!row.has_value() || row->state == RowState::kQuarantined) return ObjectNotFound(id);
  DamageReport report = [this, domain](const ObjectRow& bad) { Report(domain, bad.ref.id); };
  if (row->file_number == 0) {
    TILEKV_ASSIGN_OR_RETURN(auto value, index_->GetContent(domain, id));
    if (!value.has_value()) return ObjectNotFound(id);
    return OpenSmallContent(*std::move(value), *row, std::move(report));
  }
  auto copy = OpenPayload(options_.file_system, PayloadPath(options_.directory, row->file_number),
                          superblock_->store_uuid, domain, *row, std::move(report));
  if (absl::IsNotFound(copy.status())) return ObjectUnreadable(row->ref, "its payload is gone");
  return copy;
}

absl::StatusOr<std::shared_ptr<ObjectReader>> ReadOnlyEngine::Open(Domain domain,
                                                                   const ObjectId& id) {
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> seen, index_->Get(domain, id));
    auto copy = OpenAsSeen(domain, id);
    if (!IsMiss(copy.status())) return copy;
    // A row goes before its file: where the row is still the same, the miss is true.
    TILEKV_RETURN_IF_ERROR(Refresh());
    TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> now, index_->Get(domain, id));
    if (!IsSameCopy(seen, now)) continue;
    if (now.has_value() && now->state == RowState::kGood) Report(domain, id);
    return copy;
  }
}

absl::StatusOr<std::optional<ObjectRow>> ReadOnlyEngine::Stat(Domain domain, const ObjectId& id) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, index_->Get(domain, id));
  if (row.has_value()) return row;
  TILEKV_RETURN_IF_ERROR(Refresh());
  return index_->Get(domain, id);
}

absl::Status ReadOnlyEngine::Scan(Domain domain, const std::optional<ObjectId>& after,
                                  const std::function<bool(const ObjectRow&)>& visit) {
  TILEKV_RETURN_IF_ERROR(Refresh());
  return index_->Scan(domain, after, visit);
}

absl::StatusOr<StoreUsage> ReadOnlyEngine::Usage() {
  TILEKV_RETURN_IF_ERROR(Refresh());
  UsageCounter counter;
  TILEKV_RETURN_IF_ERROR(index_->ScanAll([&](const ObjectRow& row) {
    counter.Replace(std::nullopt, row);
    return true;
  }));
  StoreUsage usage = counter.Get();
  TILEKV_ASSIGN_OR_RETURN(DiskSpace space, options_.file_system->Space(options_.directory));
  usage.disk_total_bytes = space.total_bytes;
  usage.disk_available_bytes = space.available_bytes;
  return usage;
}

absl::Status ReadOnlyEngine::CheckCopies(Domain domain, bool repair, const CopyProblemFound& found,
                                         const CallContext& context) {
  if (repair) return ReadOnly();
  TILEKV_RETURN_IF_ERROR(Refresh());
  CopyCheckParts parts{.file_system = options_.file_system,
                       .index = index_.get(),
                       .directory = options_.directory,
                       .store_uuid = superblock_->store_uuid,
                       .refresh = [this] { return Refresh(); }};
  auto on_bad = [&](const ObjectRow& row, const CopyProblem& problem) {
    if (row.state == RowState::kGood && problem.kind != kIndexProblem) Report(domain, row.ref.id);
    found(problem);
    return absl::OkStatus();
  };
  TILEKV_ASSIGN_OR_RETURN(CopyCheckResult result, CheckAllCopies(parts, domain, on_bad, context));
  if (!result.unreadable.ok()) found(IndexDamaged(result.unreadable));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ObjectWriter>> ReadOnlyEngine::NewWriter(const PutSpec&) {
  return ReadOnly();
}
absl::StatusOr<std::unique_ptr<ObjectWriter>> ReadOnlyEngine::NewReplacement(const PutSpec&,
                                                                             const ObjectRow&) {
  return ReadOnly();
}
absl::StatusOr<std::vector<LinkResult>> ReadOnlyEngine::Link(Domain, std::span<const ObjectRef>,
                                                             Revision) {
  return ReadOnly();
}
absl::StatusOr<std::vector<LinkResult>> ReadOnlyEngine::LinkEach(Domain,
                                                                 std::span<const TouchedRef>) {
  return ReadOnly();
}
absl::StatusOr<std::vector<bool>> ReadOnlyEngine::DropUnchanged(Domain, std::span<const TouchedRef>,
                                                                const std::function<bool()>&) {
  return ReadOnly();
}
absl::StatusOr<std::vector<bool>> ReadOnlyEngine::DeleteAllBelow(Domain, std::span<const ObjectId>,
                                                                 Revision) {
  return ReadOnly();
}
absl::Status ReadOnlyEngine::MarkSuspect(Domain, const ObjectId&) { return ReadOnly(); }
absl::StatusOr<bool> ReadOnlyEngine::Verify(Domain, const ObjectId&) { return ReadOnly(); }
absl::Status ReadOnlyEngine::CheckWritable(uint64_t) { return ReadOnly(); }

}  // namespace tilekv
