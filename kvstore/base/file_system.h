// The disk behind a seam. Everything that the store writes goes through it, so that a test can fail
// a call, drop what was not synced, or tear a write. Calls block and are thread-safe; errors carry
// path, operation and errno's text. OVERLOADED: the process or the machine has no descriptors or no
// memory left; nothing was done, and trying again is fine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/shared_bytes.h"

namespace tilekv {

// An open file. Positioned reads and writes from several threads at once are fine.
class File {
 public:
  virtual ~File() = default;  // closes
  // Fills `out` from `offset`; fewer bytes only at the end of the file.
  virtual absl::StatusOr<uint64_t> Read(uint64_t offset, MutableBytes out) = 0;
  // The same into several pieces of memory, one after another; by itself a Read for each.
  virtual absl::StatusOr<uint64_t> ReadPieces(uint64_t offset,
                                              std::span<const MutableBytes> pieces);
  // The bytes where the page cache has them, all read in. For handing to the kernel without a copy:
  // where memory runs short a page may be read again later, and who then looks at it himself while
  // the disk fails gets a signal, not an error. UNIMPLEMENTED where that cannot be done: not all of
  // it is there or can be read, or the file is not the kernel's; Read tells which.
  virtual absl::StatusOr<SharedBytes> Map(uint64_t offset, uint64_t length);
  // Writes all of `data`. With direct I/O, offset, length and address are multiples of
  // kDirectIoAlignBytes.
  virtual absl::Status Write(uint64_t offset, Bytes data) = 0;
  // Data and what is needed to read it back are durable when this returns (fdatasync).
  virtual absl::Status Sync() = 0;
  virtual absl::Status Truncate(uint64_t size) = 0;
  // Gives the file `size` bytes with real blocks, without writing them. UNIMPLEMENTED where the
  // file system cannot do that at once.
  virtual absl::Status Allocate(uint64_t size);
  virtual absl::StatusOr<uint64_t> Size() = 0;
  // False where direct I/O was asked for and the file system refused it: writes are then buffered.
  virtual bool direct() const = 0;
  // The page cache may forget this file (POSIX_FADV_DONTNEED); never an error.
  virtual void DropCache() = 0;
};

// An exclusive lock held until destroyed.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct DiskSpace {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // to this user
};

// What a path leads to. Two equal values, taken before and after, mean that nothing wrote to the
// file between.
struct FileInfo {
  enum class Kind { kFile, kDirectory, kOther };
  Kind kind = Kind::kOther;
  bool is_link = false;  // the path itself is a symbolic link; all else is its target's
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  int64_t modified_nanos = 0;  // content, since 1970
  int64_t changed_nanos = 0;   // content or inode; cannot be set back by a user

  friend bool operator==(const FileInfo&, const FileInfo&) = default;
};

class FileSystem {
 public:
  enum class OpenMode {
    kRead,             // must exist
    kCreateNew,        // must not exist (O_EXCL); read and write
    kCreateNewDirect,  // the same with O_DIRECT where the file system takes it
    kReadWrite,        // created when absent
    kReadDirect,       // must exist; O_DIRECT where the file system takes it
  };
  virtual ~FileSystem() = default;
  virtual absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) = 0;
  virtual absl::Status Unlink(const std::string& path) = 0;  // absl::IsNotFound when absent
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status CreateDirectory(const std::string& path) = 0;  // fine when it exists
  virtual absl::Status RemoveDirectory(const std::string& path) = 0;  // must be empty
  // Entries of the directory are durable when this returns. After an error other than OVERLOADED it
  // is not known which of them are, and a later success does not tell.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& path) = 0;  // names, sorted
  virtual absl::StatusOr<bool> Exists(const std::string& path) = 0;
  // Follows links. NOT_FOUND when absent, also when a link leads nowhere.
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path) = 0;
  // flock on the file, created when absent, with `owner` written into it. STORE_LOCKED names the
  // present owner's text.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                         const std::string& owner) = 0;
  virtual absl::StatusOr<DiskSpace> Space(const std::string& path) = 0;

  // The machine's; lives for ever.
  static FileSystem* Posix();
};

// Whole small files, through any FileSystem.
absl::StatusOr<std::string> ReadFile(FileSystem& fs, const std::string& path, uint64_t max_bytes);
// Durable and all or nothing: a temporary beside it, synced, renamed, directory synced.
absl::Status WriteFileAtomically(FileSystem& fs, const std::string& path, std::string_view content);

}  // namespace tilekv
