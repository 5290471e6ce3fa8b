#include "kvstore/object/payload_directory.h"

#include <charconv>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
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

// Integers of a meta value; zeros where there is none.
absl::Status ReadMeta(ObjectIndex& index, std::string_view key, std::span<uint64_t> out) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<std::string> value, index.GetMeta(key));
  if (!value.has_value()) return absl::OkStatus();
  ByteReader in(AsBytes(*value));
  for (uint64_t& number : out) number = in.Read<uint64_t>();
  if (in.ok() && in.empty()) return absl::OkStatus();
  return MakeError(Reason::kDataLoss, fmt::format("index: '{}' is damaged", Printable(key)));
}

std::string EncodeNumbers(std::initializer_list<uint64_t> numbers) {
  std::string out;
  for (uint64_t number : numbers) AppendLe<uint64_t>(out, number);
  return out;
}

std::string PayloadRoot(const std::string& directory) { return directory + "/payload"; }

}  // namespace

std::string PayloadPath(const std::string& directory, uint64_t number) {
  return fmt::format("{}/{}/{}", PayloadRoot(directory), number / kPayloadFilesPerDirectory,
                     number);
}

absl::StatusOr<std::unique_ptr<PayloadDirectory>> PayloadDirectory::Open(
    FileSystem* fs, const std::string& directory, ObjectIndex* index, StoreHealth* health,
    ObjectIndex::Batch& opening) {
  std::unique_ptr<PayloadDirectory> payloads(new PayloadDirectory(fs, directory, index, health));
  uint64_t numbers = 0;
  TILEKV_RETURN_IF_ERROR(ReadMeta(*index, kNumbersKey, {&numbers, 1}));
  if (numbers == 0) numbers = 1;
  uint64_t opened[2] = {0, 0};
  TILEKV_RETURN_IF_ERROR(ReadMeta(*index, kOpenedKey, opened));
  opening.PutMeta(kOpenedKey, EncodeNumbers({opened[1], numbers}));
  payloads->removable_below_ = opened[1];
  MutexLock lock(payloads->mutex_);
  payloads->next_ = payloads->reserved_end_ = numbers;
  return payloads;
}

absl::StatusOr<uint64_t> PayloadDirectory::TakeNumber() {
  MutexLock lock(mutex_);
  if (next_ == reserved_end_) {
    ObjectIndex::Batch batch(*index_);
    batch.PutMeta(kNumbersKey, EncodeNumbers({reserved_end_ + kNumberRange}));
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
  absl::Status synced = fs_->SyncDirectory(PayloadRoot(directory_));
  if (!synced.ok()) return health_->Fail(synced);
  folders_.insert(folder);
  return absl::OkStatus();
}

absl::Status PayloadDirectory::SyncEntryOf(uint64_t number) {
  absl::Status synced = group_sync_.SyncDirectory(
      fmt::format("{}/{}", PayloadRoot(directory_), number / kPayloadFilesPerDirectory));
  return synced.ok() ? synced : health_->Fail(synced);
}

void PayloadDirectory::Remove(uint64_t number) {
  absl::Status removed = fs_->Unlink(PathOf(number));
  if (!removed.ok() && !absl::IsNotFound(removed)) health_->Notice(ErrorText(removed));
}

absl::StatusOr<uint64_t> PayloadDirectory::RemoveUnnamed() {
  TILEKV_RETURN_IF_ERROR(health_->CheckWritable());
  uint64_t removed = 0;
  TILEKV_ASSIGN_OR_RETURN(auto folders, fs_->List(PayloadRoot(directory_)));
  for (const std::string& folder : folders) {
    std::optional<uint64_t> number = ParseNumber(folder);
    if (!number.has_value() || *number * kPayloadFilesPerDirectory >= removable_below_) continue;
    TILEKV_ASSIGN_OR_RETURN(uint64_t count, RemoveUnnamedIn(folder));
    removed += count;
  }
  return removed;
}

absl::StatusOr<uint64_t> PayloadDirectory::RemoveUnnamedIn(const std::string& folder) {
  uint64_t removed = 0;
  std::string path = PayloadRoot(directory_) + "/" + folder;
  TILEKV_ASSIGN_OR_RETURN(auto names, fs_->List(path));
  for (const std::string& name : names) {
    std::optional<uint64_t> number = ParseNumber(name);
    if (!number.has_value() || *number >= removable_below_) continue;
    TILEKV_ASSIGN_OR_RETURN(bool named, index_->IsNamed(*number));
    if (named) continue;
    TILEKV_RETURN_IF_ERROR(fs_->Unlink(path + "/" + name));
    ++removed;
  }
  return removed;
}

}  // namespace tilekv
