#include "tensor_chunking/formats/inflated_copy.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

// /tmp is memory on many machines.
std::string ScratchFolder() {
  const char* chosen = std::getenv("TMPDIR");
  return chosen != nullptr && chosen[0] != '\0' ? chosen : "/var/tmp";
}

// A file without a name, which no other user can have opened; null where there is no room for it.
std::unique_ptr<File> OpenScratch(FileSystem& fs, uint64_t bytes) {
  const std::string folder = ScratchFolder();
  absl::StatusOr<DiskSpace> space = fs.Space(folder);
  if (!space.ok() || bytes > space->available_bytes / 2) return nullptr;
  // While it has a name it lies in a folder that only its owner can enter.
  std::string own_folder = folder + "/.tilekv-inflated-XXXXXX";
  if (mkdtemp(own_folder.data()) == nullptr) return nullptr;
  const std::string path = own_folder + "/content";
  auto file = fs.Open(path, FileSystem::OpenMode::kCreateNew);
  bool nameless = file.ok() && fs.Unlink(path).ok();
  fs.RemoveDirectory(own_folder).IgnoreError();
  if (!nameless) return nullptr;
  return *std::move(file);
}

}  // namespace

absl::Status InflatedCopy::Read(ReadFileBytes archive, uint64_t offset, MutableBytes out) {
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<File> file, Get(archive));
  if (file == nullptr) return member_.Read(archive, offset, out);
  TILEKV_ASSIGN_OR_RETURN(uint64_t read, file->Read(offset, out));
  TILEKV_CHECK(read == out.size());
  return absl::OkStatus();
}

void InflatedCopy::Delivered(uint64_t bytes, uint64_t total_bytes) {
  MutexLock lock(mutex_);
  delivered_bytes_ += bytes;
  if (delivered_bytes_ < total_bytes) return;
  file_.reset();
  delivered_bytes_ = 0;
}

absl::StatusOr<std::shared_ptr<File>> InflatedCopy::Get(ReadFileBytes archive) {
  MutexLock lock(mutex_);
  if (file_ == nullptr && !refused_) {
    TILEKV_ASSIGN_OR_RETURN(file_, Make(archive));
    refused_ = file_ == nullptr;
  }
  return file_;
}

absl::StatusOr<std::shared_ptr<File>> InflatedCopy::Make(ReadFileBytes archive) {
  const uint64_t total = member_.member().content_bytes;
  std::shared_ptr<File> file = OpenScratch(fs_, total);
  if (file == nullptr) return nullptr;
  std::vector<uint8_t> piece(std::min<uint64_t>(total, kMiB));
  for (uint64_t at = 0; at < total;) {
    MutableBytes next = MutableBytes(piece).first(std::min<uint64_t>(piece.size(), total - at));
    TILEKV_RETURN_IF_ERROR(member_.Read(archive, at, next));
    if (!file->Write(at, next).ok()) return nullptr;  // the disk is full, most likely
    at += next.size();
  }
  return file;
}

}  // namespace tilekv
