#include "kvstore/object/index_rebuild.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/index_rows.h"
#include "kvstore/object/index_salvage.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/object_index.h"
#include "kvstore/object/object_read.h"
#include "kvstore/object/payload_directory.h"
#include "kvstore/object/payload_file.h"
#include "kvstore/object/store_health.h"
#include "kvstore/object/stored_copy.h"
#include "kvstore/object/superblock.h"
#include "kvstore/object/uncached_file.h"

namespace tilekv {
namespace {

constexpr uint64_t kReadStepBytes = 4 * kMiB;

std::optional<uint64_t> ParseFileNumber(const std::string& name) {
  uint64_t number = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

bool IsZeros(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

absl::Status RemoveFlatDirectory(FileSystem& fs, const std::string& path) {
  TILEKV_ASSIGN_OR_RETURN(bool exists, fs.Exists(path));
  if (!exists) return absl::OkStatus();
  TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(path));
  for (const std::string& name : names) {
    TILEKV_RETURN_IF_ERROR(fs.Unlink(path + "/" + name));
  }
  return fs.RemoveDirectory(path);
}

class Rebuild {
 public:
  Rebuild(const LocalEngineOptions& options, Superblock superblock, Revision touched_rev,
          const CallContext& context)
      : options_(options),
        fs_(*options.file_system),
        superblock_(std::move(superblock)),
        touched_rev_(touched_rev),
        context_(context),
        pool_(BufferPool::Create(2 * kReadStepBytes)),
        health_(options.notice) {}

  absl::StatusOr<IndexRebuildReport> Run() {
    const std::string unfinished = options_.directory + "/index.new";
    TILEKV_RETURN_IF_ERROR(RemoveFlatDirectory(fs_, unfinished));
    TILEKV_ASSIGN_OR_RETURN(
        index_, ObjectIndex::OpenWriter(unfinished, true, options_.rocksdb_env, &health_));
    TILEKV_RETURN_IF_ERROR(PassNumbersSetAside());
    TILEKV_RETURN_IF_ERROR(AddFiles());
    TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> old_indexes, OldIndexes());
    for (const std::string& old : old_indexes) TILEKV_RETURN_IF_ERROR(TakeSmallContents(old));
    TILEKV_RETURN_IF_ERROR(WriteNumbers());
    index_.reset();
    TILEKV_RETURN_IF_ERROR(PutInPlace(unfinished));
    return report_;
  }

 private:
  // Numbers are not used twice, nor are files that were set aside overwritten.
  absl::Status PassNumbersSetAside() {
    TILEKV_ASSIGN_OR_RETURN(bool exists, fs_.Exists(aside_));
    if (!exists) return absl::OkStatus();
    TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs_.List(aside_));
    for (const std::string& name : names) {
      std::optional<uint64_t> number = ParseFileNumber(name);
      if (number.has_value()) numbers_ = std::max(numbers_, *number + 1);
    }
    return absl::OkStatus();
  }

  absl::Status AddFiles() {
    const std::string root = options_.directory + "/payload";
    TILEKV_ASSIGN_OR_RETURN(bool exists, fs_.Exists(root));
    if (!exists) return absl::OkStatus();
    TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> folders, fs_.List(root));
    for (const std::string& folder : folders) {
      if (!ParseFileNumber(folder).has_value()) continue;
      const std::string in = root + "/" + folder;
      TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs_.List(in));
      for (const std::string& name : names) {
        std::optional<uint64_t> number = ParseFileNumber(name);
        if (!number.has_value()) continue;
        TILEKV_RETURN_IF_ERROR(context_.Check());
        numbers_ = std::max(numbers_, *number + 1);
        TILEKV_RETURN_IF_ERROR(AddFile(*number, in + "/" + name));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddFile(uint64_t number, const std::string& path) {
    TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<File> file, OpenUncached(&fs_, path, pool_));
    Buffer head = pool_->Get(kPayloadHeaderBytes);
    absl::StatusOr<uint64_t> read = file->Read(0, head.span());
    bool whole = read.ok() && *read == kPayloadHeaderBytes;
    Bytes bytes = head.span();
    if (read.ok() && (!whole || IsZeros(bytes))) {
      if (!HasContent(*file)) {
        ++report_.unfinished;
        return absl::OkStatus();
      }
      return SetAside(number, path);
    }
    absl::StatusOr<PayloadHeader> header;
    if (whole) header = DecodePayloadHeader(bytes);
    if (!whole || !header.ok() || header->store_uuid != superblock_.store_uuid ||
        header->number != number) {
      return SetAside(number, path);
    }
    ObjectRow row{.ref = header->ref,
                  .encoding = header->encoding,
                  .stored_length = header->stored_length,
                  .file_number = number,
                  .touched_rev = touched_rev_};
    absl::Status checked = CheckContent(std::move(file), header->domain, row);
    if (!checked.ok() && GetReason(checked) != Reason::kDataLoss) return checked;
    row.state = checked.ok()            ? RowState::kGood
                : IsUnreadable(checked) ? RowState::kSuspect
                                        : RowState::kQuarantined;
    if (checked.ok()) row.verified_at_micros = options_.clock->WallMicros();
    return Choose(header->domain, row, path);
  }

  // Of a file without a header, which is written last: a put left it unfinished, or the disk has
  // lost it since. Only where nothing is in the file nothing is lost with it.
  bool HasContent(File& file) {
    Buffer buffer = pool_->Get(kReadStepBytes);
    for (uint64_t at = 0;; at += kReadStepBytes) {
      absl::StatusOr<uint64_t> read = file.Read(at, buffer.span());
      if (!read.ok() || !IsZeros(Bytes(buffer.span()).first(*read))) return true;
      if (*read < kReadStepBytes) return false;
    }
  }

  absl::Status CheckContent(std::unique_ptr<File> file, Domain domain, const ObjectRow& row) {
    TILEKV_ASSIGN_OR_RETURN(
        auto copy, OpenPayload(std::move(file), superblock_.store_uuid, domain, row, nullptr));
    Buffer buffer = pool_->Get(std::min(row.ref.length, kReadStepBytes));
    for (uint64_t at = 0; at < row.ref.length; at += kReadStepBytes) {
      uint64_t step = std::min(kReadStepBytes, row.ref.length - at);
      TILEKV_RETURN_IF_ERROR(ReadContent(*copy, at, buffer.span().first(step), *pool_));
    }
    return absl::OkStatus();
  }

  // Of two files with one object, which a put leaves that was ended between its row and the removal
  // of the old file, the good one stays, of two good ones the later.
  absl::Status Choose(Domain domain, const ObjectRow& row, const std::string& path) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> old, index_->Get(domain, row.ref.id));
    if (old.has_value()) {
      bool new_is_good = row.state == RowState::kGood;
      bool old_is_good = old->state == RowState::kGood;
      // Where neither is good both are kept.
      if (!new_is_good && !old_is_good) return SetAside(row.file_number, path);
      if (!new_is_good || (old_is_good && old->file_number > row.file_number)) {
        return absl::OkStatus();
      }
    }
    ObjectIndex::Batch batch(*index_);
    batch.ReplaceRow(domain, old, row);
    TILEKV_RETURN_IF_ERROR(index_->WriteUnsynced(batch));
    report_.rows += !old.has_value();
    report_.damaged += row.state == RowState::kQuarantined;
    if (old) report_.damaged -= old->state == RowState::kQuarantined;
    return absl::OkStatus();
  }

  absl::Status SetAside(uint64_t number, const std::string& path) {
    TILEKV_RETURN_IF_ERROR(fs_.CreateDirectory(aside_));
    // Before the file is in it and nowhere else.
    TILEKV_RETURN_IF_ERROR(fs_.SyncDirectory(options_.directory));
    std::string target = fmt::format("{}/{}", aside_, number);
    for (int i = 2;; ++i) {
      TILEKV_ASSIGN_OR_RETURN(bool taken, fs_.Exists(target));
      if (!taken) break;
      target = fmt::format("{}/{}.{}", aside_, number, i);
    }
    TILEKV_CRASH_POINT("rebuild.before_set_aside");
    TILEKV_RETURN_IF_ERROR(fs_.Rename(path, target));
    TILEKV_RETURN_IF_ERROR(fs_.SyncDirectory(aside_));
    ++report_.set_aside;
    return absl::OkStatus();
  }

  // The present one and those of earlier rebuilds, which may not have got this far.
  absl::StatusOr<std::vector<std::string>> OldIndexes() {
    TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs_.List(options_.directory));
    std::vector<std::string> found;
    for (const std::string& name : names) {
      if (name == "index" || name.rfind("index.old", 0) == 0) {
        found.push_back(options_.directory + "/" + name);
      }
    }
    return found;
  }

  absl::Status TakeSmallContents(const std::string& old_path) {
    TILEKV_ASSIGN_OR_RETURN(
        SalvageReport old,
        SalvageIndex(old_path, options_.rocksdb_env,
                     [this](Domain domain, const ObjectRow& row, const std::string& value) {
                       return TakeSmallContent(domain, row, value);
                     }));
    numbers_ = std::max(numbers_, old.numbers);
    for (const std::string& problem : old.problems) {
      if (!report_.old_index_error.empty()) report_.old_index_error += "; ";
      report_.old_index_error += problem;
    }
    return absl::OkStatus();
  }

  absl::Status TakeSmallContent(Domain domain, ObjectRow row, const std::string& value) {
    TILEKV_RETURN_IF_ERROR(context_.Check());
    TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> taken, index_->Get(domain, row.ref.id));
    if (taken.has_value()) return absl::OkStatus();
    row.touched_rev = touched_rev_;
    row.verified_at_micros = options_.clock->WallMicros();
    ObjectIndex::Batch batch(*index_);
    batch.PutRow(domain, row);
    batch.PutContent(domain, row.ref.id, value);
    TILEKV_RETURN_IF_ERROR(index_->WriteUnsynced(batch));
    ++report_.rows;
    ++report_.small_contents;
    return absl::OkStatus();
  }

  // The one synced write: nobody has the index before it is whole and in place.
  absl::Status WriteNumbers() {
    std::string numbers;
    AppendLe<uint64_t>(numbers, numbers_);
    ObjectIndex::Batch batch(*index_);
    batch.PutMeta(kNumbersKey, numbers);
    if (touched_rev_ == kUnsettledRevision) batch.PutMeta(kUnsettledKey, {});
    return index_->WriteSynced(batch);
  }

  absl::Status PutInPlace(const std::string& unfinished) {
    const std::string path = options_.directory + "/index";
    TILEKV_ASSIGN_OR_RETURN(bool exists, fs_.Exists(path));
    if (exists) {
      std::string old = path + ".old";
      for (int i = 2;; ++i) {
        TILEKV_ASSIGN_OR_RETURN(bool taken, fs_.Exists(old));
        if (!taken) break;
        old = fmt::format("{}.old.{}", path, i);
      }
      TILEKV_CRASH_POINT("rebuild.before_old_renamed");
      TILEKV_RETURN_IF_ERROR(fs_.Rename(path, old));
      report_.old_index = old;
    }
    TILEKV_CRASH_POINT("rebuild.before_in_place");
    TILEKV_RETURN_IF_ERROR(fs_.Rename(unfinished, path));
    return fs_.SyncDirectory(options_.directory);
  }

  const LocalEngineOptions& options_;
  FileSystem& fs_;
  const Superblock superblock_;
  const Revision touched_rev_;
  const CallContext& context_;
  const std::shared_ptr<BufferPool> pool_;
  const std::string aside_ = options_.directory + "/damaged";
  StoreHealth health_;
  std::unique_ptr<ObjectIndex> index_;
  uint64_t numbers_ = 1;  // above all that were used
  IndexRebuildReport report_;
};

}  // namespace

absl::StatusOr<IndexRebuildReport> RebuildIndex(const LocalEngineOptions& options,
                                                Revision touched_rev, const CallContext& context) {
  FileSystem& fs = *options.file_system;
  TILEKV_ASSIGN_OR_RETURN(auto superblock, LoadSuperblock(fs, options.directory));
  if (!superblock.has_value()) {
    return MakeError(Reason::kNotFound,
                     fmt::format("there is no store in '{}'", Printable(options.directory)));
  }
  TILEKV_ASSIGN_OR_RETURN(auto lock,
                          fs.Lock(options.directory + "/LOCK",
                                  fmt::format("process {}, making the index anew", getpid())));
  return Rebuild(options, *std::move(superblock), touched_rev, context).Run();
}

}  // namespace tilekv
