#include "tensor_chunking/formats/file_cache.h"

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<std::shared_ptr<File>> FileCache::Open(const std::string& path) {
  {
    MutexLock lock(mutex_);
    auto found = by_path_.find(path);
    if (found != by_path_.end()) {
      files_.splice(files_.begin(), files_, found->second);
      return found->second->second;
    }
  }
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<File> file, fs_.Open(path, FileSystem::OpenMode::kRead));
  MutexLock lock(mutex_);
  if (by_path_.contains(path)) return file;  // another thread was faster; both serve
  files_.emplace_front(path, file);
  by_path_[path] = files_.begin();
  if (files_.size() > kMaxOpenSourceFiles) {
    by_path_.erase(files_.back().first);
    files_.pop_back();
  }
  return file;
}

absl::Status FileCache::ReadAt(const std::string& path, uint64_t offset, MutableBytes out) {
  if (out.empty()) return absl::OkStatus();
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<File> file, Open(path));
  TILEKV_ASSIGN_OR_RETURN(uint64_t read, file->Read(offset, out));
  if (read < out.size()) {
    return MakeError(Reason::kInvalidFile,
                     fmt::format("'{}' ends at byte {}, but {} bytes from {} are needed: it was "
                                 "cut while it was read",
                                 Printable(path), offset + read, out.size(), offset));
  }
  return absl::OkStatus();
}

}  // namespace tilekv
