#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

absl::Status ErrnoError(std::string_view operation, const std::string& path, int error) {
  std::string text = fmt::format("{} '{}': {}", operation, Printable(path),
                                 std::generic_category().message(error));
  switch (error) {
    case ENOENT:
      return MakeError(Reason::kNotFound, text);
    case EACCES:
    case EPERM:
    case EROFS:
      return MakeError(Reason::kPermissionDenied, text);
    case ENOSPC:
      return MakeError(Reason::kStoreFull,
                       fmt::format("{} '{}': its disk is full", operation, Printable(path)));
    case EDQUOT:
      return MakeError(Reason::kStoreFull, text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    default:
      return MakeError(Reason::kInternal, text);
  }
}

// Of a call that begins something: without descriptors or memory it has done nothing.
absl::Status OpenError(std::string_view operation, const std::string& path, int error) {
  absl::Status status = ErrnoError(operation, path, error);
  if (error != EMFILE && error != ENFILE && error != ENOMEM) return status;
  absl::string_view text = status.message();
  return MakeError(Reason::kOverloaded, std::string(text.data(), text.size()));
}

class PosixFile : public File {
 public:
  PosixFile(int fd, std::string path, bool direct)
      : fd_(fd), path_(std::move(path)), direct_(direct) {}
  ~PosixFile() override { close(fd_); }

  absl::StatusOr<uint64_t> Read(uint64_t offset, MutableBytes out) override {
    uint64_t done = 0;
    while (done < out.size()) {
      ssize_t n =
          pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError("read", path_, errno);
      if (n == 0) break;
      done += static_cast<uint64_t>(n);
    }
    return done;
  }

  absl::StatusOr<uint64_t> ReadPieces(uint64_t offset,
                                      std::span<const MutableBytes> pieces) override {
    std::array<iovec, 64> vectors;  // pieces this short cost more than the call
    uint64_t done = 0;
    uint64_t in_first = 0;  // bytes of the first piece that were read
    while (!pieces.empty()) {
      size_t count = std::min(pieces.size(), vectors.size());
      for (size_t i = 0; i < count; ++i) vectors[i] = {pieces[i].data(), pieces[i].size()};
      vectors[0] = {pieces[0].data() + in_first, pieces[0].size() - in_first};
      ssize_t n =
          preadv(fd_, vectors.data(), static_cast<int>(count), static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError("read", path_, errno);
      done += static_cast<uint64_t>(n);
      in_first += static_cast<uint64_t>(n);
      bool any = n > 0;
      while (!pieces.empty() && in_first >= pieces[0].size()) {
        in_first -= pieces[0].size();
        pieces = pieces.subspan(1);
        any = true;
      }
      if (!any) break;
    }
    return done;
  }

  absl::StatusOr<SharedBytes> Map(uint64_t offset, uint64_t length) override {
    if (length == 0) return SharedBytes{};
    const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t before = offset % page;
    const uint64_t bytes = before + length;
    void* at =
        mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd_, static_cast<off_t>(offset - before));
    if (at == MAP_FAILED) return File::Map(offset, length);
    std::shared_ptr<const void> owner(
        at, [bytes](const void* mapped) { munmap(const_cast<void*>(mapped), bytes); });
    // Unlike MAP_POPULATE it tells of pages that are past the end or cannot be read.
    if (madvise(at, bytes, MADV_POPULATE_READ) != 0) return File::Map(offset, length);
    return SharedBytes{{static_cast<const uint8_t*>(at) + before, length}, std::move(owner)};
  }

  absl::Status Write(uint64_t offset, Bytes data) override {
    uint64_t done = 0;
    while (done < data.size()) {
      ssize_t n =
          pwrite(fd_, data.data() + done, data.size() - done, static_cast<off_t>(offset + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError("write", path_, errno);
      done += static_cast<uint64_t>(n);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    return fdatasync(fd_) == 0 ? absl::OkStatus() : ErrnoError("sync", path_, errno);
  }
  absl::Status Truncate(uint64_t size) override {
    return ftruncate(fd_, static_cast<off_t>(size)) == 0 ? absl::OkStatus()
                                                         : ErrnoError("truncate", path_, errno);
  }
  absl::Status Allocate(uint64_t size) override {
    // Not posix_fallocate, which writes zeros where the file system knows nothing better.
    if (fallocate(fd_, 0, 0, static_cast<off_t>(size)) == 0) return absl::OkStatus();
    return errno == EOPNOTSUPP ? File::Allocate(size) : ErrnoError("allocate", path_, errno);
  }
  absl::StatusOr<uint64_t> Size() override {
    struct stat info {};
    if (fstat(fd_, &info) != 0) return ErrnoError("stat", path_, errno);
    return static_cast<uint64_t>(info.st_size);
  }
  bool direct() const override { return direct_; }
  void DropCache() override { posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED); }

 private:
  const int fd_;
  const std::string path_;
  const bool direct_;
};

class PosixLock : public FileLock {
 public:
  explicit PosixLock(int fd) : fd_(fd) {}
  ~PosixLock() override { close(fd_); }

 private:
  const int fd_;
};

class PosixFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    int flags = O_CLOEXEC;
    bool direct = mode == OpenMode::kCreateNewDirect || mode == OpenMode::kReadDirect;
    switch (mode) {
      case OpenMode::kRead:
      case OpenMode::kReadDirect:
        flags |= O_RDONLY;
        break;
      case OpenMode::kCreateNew:
      case OpenMode::kCreateNewDirect:
        flags |= O_RDWR | O_CREAT | O_EXCL;
        break;
      case OpenMode::kReadWrite:
        flags |= O_RDWR | O_CREAT;
        break;
    }
    int fd = open(path.c_str(), direct ? flags | O_DIRECT : flags, 0644);
    if (fd < 0 && direct && errno == EINVAL) {
      // Refused for O_DIRECT; some file systems have created the file by then, which O_EXCL would
      // trip over.
      direct = false;
      fd = open(path.c_str(), flags & ~O_EXCL, 0644);
    }
    if (fd < 0) return OpenError("open", path, errno);
    return std::make_unique<PosixFile>(fd, path, direct);
  }

  absl::Status Unlink(const std::string& path) override {
    return unlink(path.c_str()) == 0 ? absl::OkStatus() : ErrnoError("unlink", path, errno);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus()
                                                 : ErrnoError("rename", from, errno);
  }
  absl::Status CreateDirectory(const std::string& path) override {
    if (mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
    int error = errno;
    struct stat info {};
    if (error == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
      return absl::OkStatus();
    return ErrnoError("create directory", path, error);
  }
  absl::Status RemoveDirectory(const std::string& path) override {
    return rmdir(path.c_str()) == 0 ? absl::OkStatus()
                                    : ErrnoError("remove directory", path, errno);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return OpenError("open directory", path, errno);
    absl::Status status =
        fsync(fd) == 0 ? absl::OkStatus() : ErrnoError("sync directory", path, errno);
    close(fd);
    return status;
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    DIR* dir = opendir(path.c_str());
    if (dir == nullptr) return OpenError("list", path, errno);
    std::vector<std::string> names;
    while (dirent* entry = readdir(dir)) {
      std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<bool> Exists(const std::string& path) override {
    struct stat info {};
    if (stat(path.c_str(), &info) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return ErrnoError("stat", path, errno);
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    struct stat link {};
    if (lstat(path.c_str(), &link) != 0) return ErrnoError("stat", path, errno);
    struct stat info = link;
    bool is_link = S_ISLNK(link.st_mode);
    if (is_link && stat(path.c_str(), &info) != 0) return ErrnoError("stat", path, errno);
    auto nanos = [](const timespec& time) {
      return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
    };
    return FileInfo{.kind = S_ISREG(info.st_mode)   ? FileInfo::Kind::kFile
                            : S_ISDIR(info.st_mode) ? FileInfo::Kind::kDirectory
                                                    : FileInfo::Kind::kOther,
                    .is_link = is_link,
                    .device = info.st_dev,
                    .inode = info.st_ino,
                    .size_bytes = static_cast<uint64_t>(info.st_size),
                    .modified_nanos = nanos(info.st_mtim),
                    .changed_nanos = nanos(info.st_ctim)};
  }

  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                 const std::string& owner) override {
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return OpenError("open", path, errno);
    auto lock = std::make_unique<PosixLock>(fd);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return ErrnoError("lock", path, errno);
      char holder[512];
      ssize_t n = pread(fd, holder, sizeof holder, 0);
      return MakeError(
          Reason::kStoreLocked,
          fmt::format("'{}' is held by another writer: {}", Printable(path),
                      Printable({holder, static_cast<size_t>(std::max<ssize_t>(n, 0))})));
    }
    if (ftruncate(fd, 0) != 0 ||
        pwrite(fd, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size())) {
      return ErrnoError("write", path, errno);
    }
    return lock;
  }

  absl::StatusOr<DiskSpace> Space(const std::string& path) override {
    struct statvfs info {};
    if (statvfs(path.c_str(), &info) != 0) return ErrnoError("statvfs", path, errno);
    return DiskSpace{.total_bytes = info.f_blocks * info.f_frsize,
                     .available_bytes = info.f_bavail * info.f_frsize};
  }
};

}  // namespace

FileSystem* FileSystem::Posix() {
  static PosixFileSystem* fs = new PosixFileSystem;
  return fs;
}

}  // namespace tilekv
