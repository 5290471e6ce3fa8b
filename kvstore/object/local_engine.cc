#include "kvstore/object/local_engine.h"

#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/object/engine_core.h"
#include "kvstore/object/incoming_content.h"
#include "kvstore/object/local_writer.h"

namespace tilekv {

absl::StatusOr<std::unique_ptr<LocalEngine>> LocalEngine::Open(const LocalEngineOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(auto core, EngineCore::Open(options));
  return std::unique_ptr<LocalEngine>(new LocalEngine(std::move(core)));
}

LocalEngine::LocalEngine(std::unique_ptr<EngineCore> core) : core_(std::move(core)) {}
LocalEngine::~LocalEngine() = default;

uint64_t LocalEngine::max_object_bytes() const { return core_->superblock().max_object_bytes; }
const std::string& LocalEngine::store_uuid() const { return core_->superblock().store_uuid; }

absl::StatusOr<std::unique_ptr<ObjectWriter>> LocalEngine::NewWriter(const PutSpec& spec) {
  TILEKV_RETURN_IF_ERROR(CheckPutSpec(spec, max_object_bytes()));
  return NewLocalWriter(core_.get(), spec);
}

absl::StatusOr<std::vector<PutOutcome>> LocalEngine::PutSmall(Domain domain,
                                                              std::span<const Bytes> contents,
                                                              Revision touched_rev) {
  return PutSmallLocally(core_.get(), domain, contents, touched_rev);
}

absl::StatusOr<std::unique_ptr<ObjectWriter>> LocalEngine::NewReplacement(const PutSpec& spec,
                                                                          const ObjectRow& seen) {
  TILEKV_RETURN_IF_ERROR(CheckPutSpec(spec, max_object_bytes()));
  return NewLocalReplacement(core_.get(), spec, seen);
}

absl::StatusOr<std::vector<LinkResult>> LocalEngine::Link(Domain domain,
                                                          std::span<const ObjectRef> refs,
                                                          Revision touched_rev) {
  return core_->Link(domain, refs, touched_rev);
}

absl::StatusOr<std::vector<LinkResult>> LocalEngine::LinkEach(Domain domain,
                                                              std::span<const TouchedRef> refs) {
  return core_->LinkEach(domain, refs);
}

absl::StatusOr<std::shared_ptr<ObjectReader>> LocalEngine::Open(Domain domain, const ObjectId& id) {
  return core_->OpenCopy(domain, id);
}

absl::StatusOr<std::optional<ObjectRow>> LocalEngine::Stat(Domain domain, const ObjectId& id) {
  return core_->index().Get(domain, id);
}

absl::Status LocalEngine::Scan(Domain domain, const std::optional<ObjectId>& after,
                               const std::function<bool(const ObjectRow&)>& visit) {
  core_->TakeReports();
  return core_->index().Scan(domain, after, visit);
}

absl::StatusOr<std::vector<bool>> LocalEngine::DeleteAllBelow(Domain domain,
                                                              std::span<const ObjectId> ids,
                                                              Revision fence) {
  return core_->DeleteAllBelow(domain, ids, fence);
}

absl::StatusOr<std::vector<bool>> LocalEngine::DropUnchanged(
    Domain domain, std::span<const TouchedRef> seen, const std::function<bool()>& still_allowed) {
  return core_->DropUnchanged(domain, seen, still_allowed);
}

absl::Status LocalEngine::MarkSuspect(Domain domain, const ObjectId& id) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, core_->index().Get(domain, id));
  if (!row.has_value()) return absl::OkStatus();
  return core_->SetState(domain, *row, RowState::kSuspect).status();
}

absl::StatusOr<bool> LocalEngine::Verify(Domain domain, const ObjectId& id) {
  return core_->Verify(domain, id);
}

absl::StatusOr<StoreUsage> LocalEngine::Usage() {
  StoreUsage usage = core_->usage().Get();
  TILEKV_ASSIGN_OR_RETURN(DiskSpace space, core_->disk().Space());
  usage.disk_total_bytes = space.total_bytes;
  usage.disk_available_bytes = space.available_bytes;
  return usage;
}

absl::Status LocalEngine::CheckCopies(Domain domain, bool repair, const CopyProblemFound& found,
                                      const CallContext& context) {
  return core_->CheckCopies(domain, repair, found, context);
}

absl::Status LocalEngine::CheckWritable(uint64_t bytes) {
  TILEKV_RETURN_IF_ERROR(core_->health().CheckWritable());
  return bytes == 0 ? absl::OkStatus() : core_->disk().CheckRoom(bytes);
}

void LocalEngine::MakeRoomForDelete() { core_->disk().MakeRoomForDelete(); }

absl::Status LocalEngine::SettleRevisions(Domain domain, Revision revision) {
  return core_->SettleRevisions(domain, revision);
}

TableFiles* LocalEngine::tables() { return core_->index().tables(); }

absl::StatusOr<uint64_t> LocalEngine::RemoveUnnamedFiles() {
  return core_->payloads().RemoveUnnamed();
}

absl::Status LocalEngine::NothingIsMissing() { return core_->payloads().EndDoubt(); }

}  // namespace tilekv
