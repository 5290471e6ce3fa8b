#include "kvstore/cluster/star_writer.h"

#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/cluster_errors.h"
#include "kvstore/cluster/copy_candidates.h"

namespace tilekv {
namespace {

absl::Status PutHasEnded() { return MakeError(Reason::kInvalidArgument, "this put has ended"); }

// Counts what a put came to.
absl::Status Conclude(ClusterParts& parts, const ObjectCopies& copies) {
  if (absl::Status status = copies.Check(); !status.ok()) {
    ++parts.counters.refused_writes;
    return status;
  }
  if (!copies.enough()) ++parts.counters.short_writes;
  return absl::OkStatus();
}

}  // namespace

StarWriter::StarWriter(ClusterParts& parts, const PutSpec& spec, CopyCandidates candidates)
    : parts_(parts), spec_(spec), copies_(parts, spec, std::move(candidates)) {}

absl::StatusOr<std::unique_ptr<StarWriter>> StarWriter::Begin(ClusterParts& parts,
                                                              const PutSpec& spec) {
  TILEKV_RETURN_IF_ERROR(CheckPutSpec(spec, parts.local.max_object_bytes()));
  CopyCandidates candidates = CandidatesFor(parts, parts.view.placement(), spec.expected->id);
  auto writer = std::unique_ptr<StarWriter>(new StarWriter(parts, spec, std::move(candidates)));
  if (absl::Status started = writer->copies_.Start(); !started.ok()) {
    ++parts.counters.refused_writes;
    return started;
  }
  if (!writer->copies_.writes_here()) {
    writer->check_.emplace(spec, parts.local.max_object_bytes(), parts.options.pool);
  }
  return writer;
}

absl::Status StarWriter::Append(Bytes stored, std::span<const uint32_t> table) {
  TILEKV_RETURN_IF_ERROR(status_);
  if (check_) status_ = check_->Append(stored, table);
  if (!status_.ok()) return status_;
  status_ = copies_.Append(stored, table);
  if (!status_.ok() && !IsOfContent(status_)) ++parts_.counters.refused_writes;
  return status_;
}

absl::StatusOr<PutOutcome> StarWriter::Finish() {
  TILEKV_RETURN_IF_ERROR(status_);
  status_ = PutHasEnded();
  if (check_) TILEKV_RETURN_IF_ERROR(check_->Finish().status());
  TILEKV_RETURN_IF_ERROR(copies_.FinishOpen());
  if (!copies_.enough()) parts_.counters.fallback_copies += copies_.Complete();
  TILEKV_RETURN_IF_ERROR(Conclude(parts_, copies_));
  return PutOutcome{.ref = *spec_.expected, .stored = copies_.stored()};
}

absl::StatusOr<std::unique_ptr<SpoolWriter>> SpoolWriter::Begin(ClusterParts& parts,
                                                                const PutSpec& spec) {
  TILEKV_RETURN_IF_ERROR(CheckPutSpec(spec, parts.local.max_object_bytes()));
  auto writer = std::unique_ptr<SpoolWriter>(new SpoolWriter(parts, spec));
  const bool may_be_small = !spec.length.has_value() || *spec.length <= kInlineContentBytes;
  if (spec.encoding.kind == EncodingKind::kNone && may_be_small) {
    writer->small_.emplace(spec, parts.local.max_object_bytes(), parts.options.pool);
  } else {
    TILEKV_RETURN_IF_ERROR(writer->OpenLocal());
  }
  return writer;
}

absl::Status SpoolWriter::OpenLocal() {
  TILEKV_ASSIGN_OR_RETURN(local_, parts_.local.NewWriter(spec_));
  small_.reset();
  const std::string bytes = std::exchange(bytes_, std::string());
  return bytes.empty() ? absl::OkStatus() : local_->Append(AsBytes(bytes));
}

absl::Status SpoolWriter::AppendSmall(Bytes stored, std::span<const uint32_t> table) {
  TILEKV_RETURN_IF_ERROR(small_->Append(stored, table));
  bytes_.append(AsText(stored));
  return absl::OkStatus();
}

absl::Status SpoolWriter::Append(Bytes stored, std::span<const uint32_t> table) {
  TILEKV_RETURN_IF_ERROR(status_);
  if (small_ && stored.size() > kInlineContentBytes - bytes_.size()) status_ = OpenLocal();
  if (status_.ok()) {
    status_ = small_ ? AppendSmall(stored, table) : local_->Append(stored, table);
  }
  return status_;
}

absl::StatusOr<PutOutcome> SpoolWriter::Finish() {
  TILEKV_RETURN_IF_ERROR(status_);
  status_ = PutHasEnded();
  return small_ ? FinishSmall() : FinishSpooled();
}

absl::StatusOr<PutOutcome> SpoolWriter::FinishSmall() {
  PutSpec spec = spec_;
  TILEKV_ASSIGN_OR_RETURN(spec.expected, small_->Finish());
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<StarWriter> star, StarWriter::Begin(parts_, spec));
  if (!bytes_.empty()) TILEKV_RETURN_IF_ERROR(star->Append(AsBytes(bytes_), {}));
  return star->Finish();
}

absl::StatusOr<PutOutcome> SpoolWriter::FinishSpooled() {
  TILEKV_ASSIGN_OR_RETURN(PutOutcome outcome, local_->Finish());
  PutSpec spec = spec_;
  spec.expected = outcome.ref;
  CopyCandidates candidates = CandidatesFor(parts_, parts_.view.placement(), outcome.ref.id);
  // This node has its copy already.
  CopyCandidate self;
  std::erase_if(candidates.nodes, [&self](const CopyCandidate& candidate) {
    if (candidate.self) self = candidate;
    return candidate.self;
  });
  ObjectCopies copies(parts_, spec, std::move(candidates));
  if (self.owner) copies.CountHolder(self, parts_.local.store_uuid());
  if (!self.owner) copies.HoldSpare(self.node != nullptr);
  copies.Complete();
  TILEKV_RETURN_IF_ERROR(Conclude(parts_, copies));
  outcome.stored |= copies.stored();
  return outcome;
}

}  // namespace tilekv
