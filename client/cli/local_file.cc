#include "client/cli/local_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int kPollMillis = 200;

class FileSource : public ByteSource {
 public:
  FileSource(std::string path, std::unique_ptr<File> file, const FileInfo& info,
             const CallContext& context, ByteProgress progress)
      : path_(std::move(path)),
        file_(std::move(file)),
        info_(info),
        context_(context),
        progress_(std::move(progress)) {}

  absl::StatusOr<uint64_t> Read(MutableBytes out) override {
    TILEKV_RETURN_IF_ERROR(context_.Check());
    uint64_t left = info_.size_bytes - offset_;
    if (left == 0) {
      TILEKV_RETURN_IF_ERROR(CheckUnchanged());
      return 0;
    }
    MutableBytes part = out.first(std::min<uint64_t>(out.size(), left));
    TILEKV_ASSIGN_OR_RETURN(uint64_t n, file_->Read(offset_, part));
    if (n < part.size()) return Changed();
    offset_ += n;
    // The last bytes are given only after the file was seen to be as it was.
    if (offset_ == info_.size_bytes) TILEKV_RETURN_IF_ERROR(CheckUnchanged());
    if (progress_) progress_(offset_, info_.size_bytes);
    return n;
  }
  std::optional<uint64_t> length() const override { return info_.size_bytes; }

 private:
  absl::Status Changed() const {
    return MakeError(Reason::kInvalidFile,
                     fmt::format("'{}' changed while it was read", Printable(path_)));
  }
  absl::Status CheckUnchanged() const {
    TILEKV_ASSIGN_OR_RETURN(FileInfo now, FileSystem::Posix()->Stat(path_));
    return now == info_ ? absl::OkStatus() : Changed();
  }

  const std::string path_;
  std::unique_ptr<File> file_;
  const FileInfo info_;
  const CallContext context_;
  const ByteProgress progress_;
  uint64_t offset_ = 0;
};

// A pipe, a device or standard input: its length is known at its end.
class PipeSource : public ByteSource {
 public:
  PipeSource(std::string path, int fd, bool owned, const CallContext& context,
             ByteProgress progress)
      : path_(std::move(path)),
        fd_(fd),
        owned_(owned),
        context_(context),
        progress_(std::move(progress)) {}
  ~PipeSource() override {
    if (owned_) close(fd_);
  }

  absl::StatusOr<uint64_t> Read(MutableBytes out) override {
    while (true) {
      TILEKV_RETURN_IF_ERROR(context_.Check());
      // A signal just before a blocking read would not interrupt it.
      pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, kPollMillis) <= 0) continue;
      ssize_t n = read(fd_, out.data(), out.size());
      if (n < 0 && errno == EINTR) continue;  // a signal: the context tells which
      if (n < 0) {
        return MakeError(Reason::kInvalidFile, fmt::format("read '{}': {}", Printable(path_),
                                                           std::generic_category().message(errno)));
      }
      done_bytes_ += static_cast<uint64_t>(n);
      if (progress_) progress_(done_bytes_, 0);
      return static_cast<uint64_t>(n);
    }
  }

 private:
  const std::string path_;
  const int fd_;
  const bool owned_;
  const CallContext context_;
  const ByteProgress progress_;
  uint64_t done_bytes_ = 0;
};

class NewFileSink : public LocalSink {
 public:
  NewFileSink(std::string path, std::string temporary, std::unique_ptr<File> file,
              const CallContext& context, ByteProgress progress, uint64_t total_bytes)
      : path_(std::move(path)),
        temporary_(std::move(temporary)),
        file_(std::move(file)),
        context_(context),
        progress_(std::move(progress)),
        total_bytes_(total_bytes) {}
  ~NewFileSink() override {
    if (!committed_) FileSystem::Posix()->Unlink(temporary_).IgnoreError();
  }

  absl::Status Append(Bytes piece) override {
    TILEKV_RETURN_IF_ERROR(context_.Check());
    TILEKV_RETURN_IF_ERROR(file_->Write(offset_, piece));
    offset_ += piece.size();
    if (progress_) progress_(offset_, total_bytes_);
    return absl::OkStatus();
  }
  absl::Status Commit() override {
    TILEKV_RETURN_IF_ERROR(context_.Check());
    FileSystem* fs = FileSystem::Posix();
    TILEKV_RETURN_IF_ERROR(file_->Sync());
    TILEKV_RETURN_IF_ERROR(fs->Rename(temporary_, path_));
    committed_ = true;
    size_t slash = path_.rfind('/');
    return fs->SyncDirectory(slash == std::string::npos ? "." : path_.substr(0, slash + 1));
  }

 private:
  const std::string path_;
  const std::string temporary_;
  std::unique_ptr<File> file_;
  const CallContext context_;
  const ByteProgress progress_;
  const uint64_t total_bytes_;
  uint64_t offset_ = 0;
  bool committed_ = false;
};

class DeviceSink : public LocalSink {
 public:
  DeviceSink(std::string path, int fd, const CallContext& context)
      : path_(std::move(path)), fd_(fd), context_(context) {}
  ~DeviceSink() override { close(fd_); }

  absl::Status Append(Bytes piece) override {
    while (!piece.empty()) {
      TILEKV_RETURN_IF_ERROR(context_.Check());
      ssize_t n = write(fd_, piece.data(), piece.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        int error = errno;
        return error == ENOSPC ? MakeError(Reason::kStoreFull,
                                           fmt::format("write '{}': it is full, not the store",
                                                       Printable(path_)))
                               : MakeError(Reason::kInternal,
                                           fmt::format("write '{}': {}", Printable(path_),
                                                       std::generic_category().message(error)));
      }
      piece = piece.subspan(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }
  absl::Status Commit() override { return absl::OkStatus(); }

 private:
  const std::string path_;
  const int fd_;
  const CallContext context_;
};

absl::Status OpenFailed(const std::string& path, int error) {
  Reason reason = error == ENOENT                     ? Reason::kNotFound
                  : error == EACCES || error == EPERM ? Reason::kPermissionDenied
                                                      : Reason::kInternal;
  return MakeError(reason, fmt::format("open '{}': {}", Printable(path),
                                       std::generic_category().message(error)));
}

// Where it is missing, the file system's own error would name the unfinished file.
absl::Status CheckFolderOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return absl::OkStatus();
  const std::string folder = path.substr(0, slash);
  absl::StatusOr<FileInfo> info = FileSystem::Posix()->Stat(folder);
  if (absl::IsNotFound(info.status())) {
    return MakeError(Reason::kNotFound,
                     fmt::format("there is no folder '{}' for '{}'; make it first",
                                 Printable(folder), Printable(path)));
  }
  return info.status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenLocalSource(const std::string& path,
                                                            const CallContext& context,
                                                            ByteProgress progress) {
  if (path == "-") {
    return std::make_unique<PipeSource>("standard input", STDIN_FILENO, false, context,
                                        std::move(progress));
  }
  absl::StatusOr<FileInfo> found = FileSystem::Posix()->Stat(path);
  if (absl::IsNotFound(found.status())) {
    return MakeError(Reason::kNotFound, fmt::format("'{}' is not there", Printable(path)));
  }
  TILEKV_ASSIGN_OR_RETURN(FileInfo info, found);
  if (info.kind == FileInfo::Kind::kDirectory) {
    return MakeError(Reason::kInvalidFile,
                     fmt::format("'{}' is a directory; a value comes from a file, a folder of a "
                                 "model goes in with 'tilekv model import NAME DIR'",
                                 Printable(path)));
  }
  if (info.kind == FileInfo::Kind::kOther) {
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return OpenFailed(path, errno);
    return std::make_unique<PipeSource>(path, fd, true, context, std::move(progress));
  }
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                          FileSystem::Posix()->Open(path, FileSystem::OpenMode::kRead));
  return std::make_unique<FileSource>(path, std::move(file), info, context, std::move(progress));
}

absl::StatusOr<std::unique_ptr<LocalSink>> OpenLocalSink(const std::string& path, bool overwrite,
                                                         const CallContext& context,
                                                         ByteProgress progress,
                                                         uint64_t total_bytes) {
  FileSystem* fs = FileSystem::Posix();
  absl::StatusOr<FileInfo> info = fs->Stat(path);
  if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
  if (info.ok() && info->kind == FileInfo::Kind::kDirectory) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("'{}' is a directory; name a file in it", Printable(path)));
  }
  if (info.ok() && info->kind == FileInfo::Kind::kOther) {
    int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return OpenFailed(path, errno);
    return std::make_unique<DeviceSink>(path, fd, context);
  }
  if (info.ok() && !overwrite) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("'{}' exists; pass -y to overwrite it", Printable(path)));
  }
  TILEKV_RETURN_IF_ERROR(CheckFolderOf(path));
  std::string temporary = fmt::format("{}.tilekv-{}", path, getpid());
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                          fs->Open(temporary, FileSystem::OpenMode::kCreateNew));
  return std::make_unique<NewFileSink>(path, std::move(temporary), std::move(file), context,
                                       std::move(progress), total_bytes);
}

}  // namespace tilekv
