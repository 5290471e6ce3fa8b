#include "kvstore/object/local_writer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/incoming_content.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/payload_writer.h"

namespace tilekv {
namespace {

// Claimed at a time by a put of unknown length that has outgrown the index.
constexpr uint64_t kClaimStepBytes = 16 * kMiB;

absl::Status Ended() { return MakeError(Reason::kInvalidArgument, "this put has ended"); }

// Of an object that is here already: nothing is written, so nothing need be trusted.
class PresentWriter : public ObjectWriter {
 public:
  PresentWriter(EngineCore* core, const PutSpec& spec) : core_(core), spec_(spec) {}

  absl::Status Append(Bytes stored, std::span<const uint32_t> table) override {
    bool coded = spec_.encoding.kind != EncodingKind::kNone;
    seen_ += coded ? table.size() : stored.size();
    if (seen_ <= Expected()) return absl::OkStatus();
    return MakeError(Reason::kInvalidArgument, "the content goes on past its declared length");
  }

  absl::StatusOr<PutOutcome> Finish() override {
    if (seen_ != Expected()) {
      return MakeError(Reason::kInvalidArgument, "the content ended before its declared length");
    }
    const ObjectRef& ref = *spec_.expected;
    TILEKV_ASSIGN_OR_RETURN(bool present,
                            core_->RaiseTrusted(spec_.domain, ref.id, spec_.touched_rev));
    if (present) return PutOutcome{.ref = ref, .stored = false};
    return MakeError(Reason::kOverloaded,
                     fmt::format("object {} was here when its put began and is not any more; put "
                                 "it again",
                                 ref.id.Short()));
  }

 private:
  // Bytes, or blocks where the content is coded.
  uint64_t Expected() const {
    uint64_t length = spec_.expected->length;
    return spec_.encoding.kind == EncodingKind::kNone ? length : BlockCount(length);
  }

  EngineCore* const core_;
  const PutSpec spec_;
  uint64_t seen_ = 0;
};

class LocalWriter : public ObjectWriter {
 public:
  // `seen`: the row that the new copy replaces; none for a put.
  LocalWriter(EngineCore* core, const PutSpec& spec, const std::optional<ObjectRow>& seen)
      : core_(core),
        spec_(spec),
        seen_(seen),
        declared_length_(DeclaredLength(spec)),
        content_(spec, core->superblock().max_object_bytes, core->pool()) {}
  ~LocalWriter() override { RemoveFile(); }

  absl::Status ClaimSpace() {
    uint64_t bytes = kInlineContentBytes;
    if (declared_length_.has_value()) {
      bytes = LayoutOf(*declared_length_, *declared_length_, spec_.encoding).file_length;
    }
    return core_->disk().Claim(bytes, claim_);
  }

  absl::Status Append(Bytes stored, std::span<const uint32_t> table) override {
    if (status_.ok()) status_ = DoAppend(stored, table);
    return status_;
  }

  absl::StatusOr<PutOutcome> Finish() override {
    TILEKV_RETURN_IF_ERROR(status_);
    status_ = Ended();
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, content_.Finish());
    if (!seen_.has_value()) {
      // Somebody may have stored it meanwhile: that spares the syncs.
      TILEKV_ASSIGN_OR_RETURN(bool present,
                              core_->RaiseTrusted(spec_.domain, ref.id, spec_.touched_rev));
      if (present) return PutOutcome{.ref = ref, .stored = false};
    }
    ObjectRow row{.ref = ref,
                  .encoding = spec_.encoding,
                  .stored_length = content_.stored_length(),
                  .touched_rev = spec_.touched_rev};
    std::optional<std::string> small;
    if (ref.length < kInlineContentBytes) {
      small = SmallValue();
    } else {
      TILEKV_RETURN_IF_ERROR(FinishFile(ref));
      row.file_number = *number_;
    }
    absl::StatusOr<EngineCore::Commit> commit =
        seen_.has_value() ? core_->ReplaceCopy(spec_.domain, *seen_, row, small)
                          : core_->CommitRow(spec_.domain, row, std::move(small));
    // After an error the row may be in RocksDB's log all the same, and then names the file: it
    // stays. Without a row it is garbage for RemoveUnnamed.
    if (!commit.ok() || commit->used) number_.reset();
    TILEKV_RETURN_IF_ERROR(commit.status());
    return PutOutcome{.ref = ref, .stored = seen_.has_value() ? commit->used : !commit->was_good};
  }

 private:
  absl::Status DoAppend(Bytes stored, std::span<const uint32_t> table) {
    // The limit first: nothing beyond it is kept anywhere.
    TILEKV_RETURN_IF_ERROR(content_.Append(stored, table));
    bool small = declared_length_.value_or(content_.content_length()) < kInlineContentBytes;
    if (small) {
      small_.append(AsText(stored));
      return absl::OkStatus();
    }
    if (file_ == nullptr) TILEKV_RETURN_IF_ERROR(StartFile());
    return AppendToFile(stored);
  }

  absl::Status StartFile() {
    absl::StatusOr<std::unique_ptr<PayloadWriter>> file;
    do {
      TILEKV_ASSIGN_OR_RETURN(uint64_t number, core_->payloads().TakeNumber());
      file = PayloadWriter::Create(core_->file_system(), core_->payloads().PathOf(number),
                                   core_->pool());
      if (file.ok()) number_ = number;
      // A file under a new number: a damaged log has lost that the number was taken.
    } while (absl::IsAlreadyExists(file.status()));
    if (!file.ok()) return file.status();
    TILEKV_CRASH_POINT("put.created");
    file_ = *std::move(file);
    core_->NoteDirect(file_->direct());
    // Content of unknown length that has just outgrown the index.
    TILEKV_RETURN_IF_ERROR(AppendToFile(AsBytes(small_)));
    small_ = std::string();
    return absl::OkStatus();
  }

  absl::Status AppendToFile(Bytes stored) {
    if (!declared_length_.has_value() && claim_.bytes() < stored.size()) {
      TILEKV_RETURN_IF_ERROR(core_->disk().Claim(stored.size() + kClaimStepBytes, claim_));
    }
    uint64_t before = file_->written_bytes();
    TILEKV_RETURN_IF_ERROR(file_->Append(stored));
    claim_.Used(file_->written_bytes() - before);
    return absl::OkStatus();
  }

  absl::Status FinishFile(const ObjectRef& ref) {
    TILEKV_CRASH_POINT("put.written");
    TILEKV_RETURN_IF_ERROR(file_->WriteEnd({.domain = spec_.domain,
                                            .store_uuid = core_->superblock().store_uuid,
                                            .number = *number_,
                                            .ref = ref,
                                            .encoding = spec_.encoding,
                                            .stored_length = content_.stored_length()},
                                           content_.leaves(), content_.block_table()));
    TILEKV_CRASH_POINT("put.header");
    absl::Status synced = file_->Sync();
    if (!synced.ok()) return core_->health().Fail(synced);
    TILEKV_CRASH_POINT("put.synced");
    TILEKV_RETURN_IF_ERROR(core_->payloads().SyncEntryOf(*number_));
    TILEKV_CRASH_POINT("put.entry_synced");
    claim_ = SpaceClaim();
    file_.reset();
    return absl::OkStatus();
  }

  std::string SmallValue() const {
    const std::vector<uint32_t>& table = content_.block_table();
    std::string value(reinterpret_cast<const char*>(table.data()), table.size() * sizeof(uint32_t));
    return value + small_;
  }

  void RemoveFile() {
    file_.reset();
    if (number_.has_value()) core_->payloads().Remove(*number_);
  }

  EngineCore* const core_;
  const PutSpec spec_;
  const std::optional<ObjectRow> seen_;
  const std::optional<uint64_t> declared_length_;
  IncomingContent content_;
  absl::Status status_;  // of the put so far: after an error nothing more is taken
  SpaceClaim claim_;
  std::string small_;  // stored bytes while the content is below kInlineContentBytes
  std::unique_ptr<PayloadWriter> file_;
  std::optional<uint64_t> number_;  // of the file, until a row names it
};

// Whether a put may leave the copy that is here as it is: after a look at the copy itself where it
// was not checked for long or was reported.
absl::StatusOr<bool> IsPresent(EngineCore* core, const PutSpec& spec) {
  if (!spec.expected.has_value()) return false;
  const ObjectId& id = spec.expected->id;
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, core->index().Get(spec.domain, id));
  if (!row.has_value() || row->state == RowState::kQuarantined || row->ref != *spec.expected) {
    return false;
  }
  if (!core->IsTrusted(*row)) {
    absl::StatusOr<bool> good = core->Verify(spec.domain, id);
    if (absl::IsNotFound(good.status())) return false;
    if (!good.ok()) return good.status();
    if (!*good) return false;
  }
  // At once: from here on the collector lets it be.
  return core->RaiseTrusted(spec.domain, id, spec.touched_rev);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectWriter>> NewLocalWriter(EngineCore* core,
                                                             const PutSpec& spec) {
  TILEKV_RETURN_IF_ERROR(core->health().CheckWritable());
  core->TakeReports();
  TILEKV_ASSIGN_OR_RETURN(bool present, IsPresent(core, spec));
  if (present) return std::make_unique<PresentWriter>(core, spec);
  auto writer = std::make_unique<LocalWriter>(core, spec, std::nullopt);
  TILEKV_RETURN_IF_ERROR(writer->ClaimSpace());
  return writer;
}

absl::StatusOr<std::unique_ptr<ObjectWriter>> NewLocalReplacement(EngineCore* core,
                                                                  const PutSpec& spec,
                                                                  const ObjectRow& seen) {
  TILEKV_RETURN_IF_ERROR(core->health().CheckWritable());
  auto writer = std::make_unique<LocalWriter>(core, spec, seen);
  TILEKV_RETURN_IF_ERROR(writer->ClaimSpace());
  return writer;
}

absl::StatusOr<std::vector<PutOutcome>> PutSmallLocally(EngineCore* core, Domain domain,
                                                        std::span<const Bytes> contents,
                                                        Revision touched_rev) {
  TILEKV_RETURN_IF_ERROR(core->health().CheckWritable());
  core->TakeReports();
  std::vector<EngineCore::NewRow> rows;
  std::vector<size_t> row_of;  // of each content
  std::map<ObjectId, size_t> row_of_id;
  uint64_t total_bytes = 0;
  for (Bytes content : contents) {
    if (content.size() >= kInlineContentBytes) {
      return MakeError(Reason::kInternal,
                       fmt::format("{} bytes are no small content", content.size()));
    }
    PutSpec spec;
    spec.length = content.size();
    TILEKV_RETURN_IF_ERROR(CheckPutSpec(spec, core->superblock().max_object_bytes));
    ObjectRef ref = RefOf(0, content);
    auto [at, is_new] = row_of_id.try_emplace(ref.id, rows.size());
    row_of.push_back(at->second);
    if (!is_new) continue;
    total_bytes += content.size();
    rows.push_back({{.ref = ref, .stored_length = content.size(), .touched_rev = touched_rev},
                    std::string(AsText(content))});
  }
  SpaceClaim claim;
  TILEKV_RETURN_IF_ERROR(core->disk().Claim(total_bytes, claim));
  std::vector<PutOutcome> outcomes;
  for (size_t row : row_of) outcomes.push_back({.ref = rows[row].row.ref});
  TILEKV_ASSIGN_OR_RETURN(std::vector<EngineCore::Commit> commits,
                          core->CommitRows(domain, std::move(rows)));
  for (size_t i = 0; i < outcomes.size(); ++i) outcomes[i].stored = !commits[row_of[i]].was_good;
  return outcomes;
}

}  // namespace tilekv
