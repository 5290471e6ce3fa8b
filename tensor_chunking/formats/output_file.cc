#include "tensor_chunking/formats/output_file.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(FileSystem& fs,
                                                               const std::string& path,
                                                               bool overwrite, Random& random) {
  std::unique_ptr<OutputFile> output(new OutputFile(fs, path, overwrite));
  TILEKV_RETURN_IF_ERROR(output->CheckDestination());
  size_t name_at = path.rfind('/') + 1;
  // Without the name: one that is as long as names can be would not fit.
  output->temporary_ =
      fmt::format("{}{}{:016x}.tmp", path.substr(0, name_at), kTemporaryPrefix, random.Next());
  auto file = fs.Open(output->temporary_, FileSystem::OpenMode::kCreateNew);
  if (absl::IsNotFound(file.status())) {
    return MakeError(
        Reason::kNotFound,
        fmt::format("'{}' cannot be written: its folder is not there", Printable(path)));
  }
  if (!file.ok()) {
    return WithContext(file.status(), fmt::format("'{}' cannot be written", Printable(path)));
  }
  output->file_ = *std::move(file);
  return output;
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  file_.reset();
  // Whoever sees the failure of the export has its cause already.
  fs_.Unlink(temporary_).IgnoreError();
}

absl::Status OutputFile::CheckDestination() const {
  absl::StatusOr<FileInfo> info = fs_.Stat(path_);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  if (!info.ok()) return info.status();
  if (info->kind == FileInfo::Kind::kDirectory) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("'{}' is a folder; a file is to be written", Printable(path_)));
  }
  if (overwrite_) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("'{}' exists already; -y overwrites it", Printable(path_)));
}

absl::Status OutputFile::Commit() {
  TILEKV_RETURN_IF_ERROR(file_->Sync());
  TILEKV_RETURN_IF_ERROR(CheckDestination());
  TILEKV_RETURN_IF_ERROR(fs_.Rename(temporary_, path_));
  file_.reset();
  size_t slash = path_.rfind('/');
  return fs_.SyncDirectory(slash == std::string::npos ? "."
                           : slash == 0               ? "/"
                                                      : path_.substr(0, slash));
}

}  // namespace tilekv
