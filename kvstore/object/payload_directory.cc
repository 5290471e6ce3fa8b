#include "kvstore/object/payload_directory.h"

#include <charconv>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/rocksdb_open.h"
#include "kvstore/base/status.h"
#include "kvstore/object/index_rows.h"

namespace tilekv {
namespace {

// Numbers taken by one synced write.
constexpr uint64_t kNumberRange = 256;

std::optional<uint64_t> ParseNumber(const std::string& name) {
  uint64_t number = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

// `numbers`: the first that was never used.
absl::StatusOr<uint64_t> ReadNumbers(ObjectIndex& index) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<std::string> value, index.GetMeta(kNumbersKey));
  if (!value.has_value()) return 1;
  ByteReader in(AsBytes(*value));
  uint64_t numbers = in.Read<uint64_t>();
  if (in.ok() && in.empty()) return numbers;
  return MakeError(Reason::kDataLoss,
                   fmt::format("index: '{}' is damaged", Printable(kNumbersKey)));
}

std::string EncodeNumber(uint64_t number) {
  std::string out;
  AppendLe<uint64_t>(out, number);
  return out;
}

std::string PayloadRoot(const std::string& directory) { return directory + "/payload"; }

}  // namespace

std::string PayloadPath(const std::string& directory, uint64_t number) {
  return fmt::format("{}/{}/{}", PayloadRoot(directory), number / kPayloadFilesPerDirectory,
                     number);
}

absl::StatusOr<std::unique_ptr<PayloadDirectory>> PayloadDirectory::Open(
    FileSystem* fs, const std::string& directory, ObjectIndex* index, StoreHealth* health) {
  TILEKV_ASSIGN_OR_RETURN(uint64_t numbers, ReadNumbers(*index));
  return std::unique_ptr<PayloadDirectory>(
      new PayloadDirectory(fs, directory, index, health, numbers));
}

absl::StatusOr<uint64_t> PayloadDirectory::TakeNumber() {
  MutexLock lock(mutex_);
  if (next_ == reserved_end_) {
    ObjectIndex::Batch batch(*index_);
    batch.PutMeta(kNumbersKey, EncodeNumber(reserved_end_ + kNumberRange));
    TILEKV_RETURN_IF_ERROR(index_->WriteSynced(batch));
    reserved_end_ += kNumberRange;
  }
  TILEKV_RETURN_IF_ERROR(MakeFolder(next_ / kPayloadFilesPerDirectory));
  return next_++;
}

absl::Status PayloadDirectory::MakeFolder(uint64_t folder) {
  if (folders_.count(folder) != 0) return absl::OkStatus();
  TILEKV_RETURN_IF_ERROR(
      fs_->CreateDirectory(fmt::format("{}/{}", PayloadRoot(directory_), folder)));
  // Also where it was there: whoever made it may have ended before the sync.
  TILEKV_RETURN_IF_ERROR(health_->AfterDirectorySync(fs_->SyncDirectory(PayloadRoot(directory_))));
  folders_.insert(folder);
  return absl::OkStatus();
}

absl::Status PayloadDirectory::SyncEntryOf(uint64_t number) {
  return health_->AfterDirectorySync(group_sync_.SyncDirectory(
      fmt::format("{}/{}", PayloadRoot(directory_), number / kPayloadFilesPerDirectory)));
}

void PayloadDirectory::Remove(uint64_t number) {
  absl::Status removed = fs_->Unlink(PathOf(number));
  if (!removed.ok() && !absl::IsNotFound(removed)) health_->Notice(ErrorText(removed));
}

absl::StatusOr<uint64_t> PayloadDirectory::RemoveUnnamed() {
  TILEKV_RETURN_IF_ERROR(health_->CheckWritable());
  TILEKV_ASSIGN_OR_RETURN(bool in_doubt, InDoubt());
  if (in_doubt) return 0;
  uint64_t removed = 0;
  TILEKV_RETURN_IF_ERROR(VisitUnnamed([&](uint64_t, const std::string& path) -> absl::Status {
    TILEKV_CRASH_POINT("unnamed.before_unlink");
    absl::Status unlinked = fs_->Unlink(path);
    // Whoever took the file's name from its row has removed it meanwhile.
    if (absl::IsNotFound(unlinked)) return absl::OkStatus();
    removed += unlinked.ok();
    return unlinked;
  }));
  return removed;
}

absl::StatusOr<std::vector<std::string>> PayloadDirectory::DroppedFiles() {
  const std::string index = directory_ + "/index";
  TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs_->List(index));
  std::vector<std::string> dropped;
  for (const std::string& name : names) {
    if (name.rfind(kDroppedPrefix, 0) == 0) dropped.push_back(index + "/" + name);
  }
  return dropped;
}

absl::StatusOr<bool> PayloadDirectory::InDoubt() {
  TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> dropped, DroppedFiles());
  return !dropped.empty();
}

absl::Status PayloadDirectory::EndDoubt() {
  TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> dropped, DroppedFiles());
  // Not synced: what comes back is in doubt once more, and no more than that.
  for (const std::string& path : dropped) TILEKV_RETURN_IF_ERROR(fs_->Unlink(path));
  return absl::OkStatus();
}

absl::Status PayloadDirectory::VisitUnnamed(const UnnamedFound& visit) {
  TILEKV_ASSIGN_OR_RETURN(auto folders, fs_->List(PayloadRoot(directory_)));
  for (const std::string& folder : folders) {
    std::optional<uint64_t> number = ParseNumber(folder);
    if (!number.has_value() || *number * kPayloadFilesPerDirectory >= first_number_) continue;
    TILEKV_RETURN_IF_ERROR(VisitUnnamedIn(folder, visit));
  }
  return absl::OkStatus();
}

absl::Status PayloadDirectory::VisitUnnamedIn(const std::string& folder,
                                              const UnnamedFound& visit) {
  std::string path = PayloadRoot(directory_) + "/" + folder;
  TILEKV_ASSIGN_OR_RETURN(auto names, fs_->List(path));
  for (const std::string& name : names) {
    std::optional<uint64_t> number = ParseNumber(name);
    if (!number.has_value() || *number >= first_number_) continue;
    TILEKV_ASSIGN_OR_RETURN(bool named, index_->IsNamed(*number));
    if (!named) TILEKV_RETURN_IF_ERROR(visit(*number, path + "/" + name));
  }
  return absl::OkStatus();
}

}  // namespace tilekv
