// For tests: a machine's disk in memory that can lose its power, fill up, fail and lie.
//
// It keeps apart what was written and what is durable. Bytes become durable by a sync of their
// file; entries of a directory (files made, renamed, removed) by a sync of the directory, and by
// nothing else; a rename from one directory into another, which happens as a whole, by a sync of
// either. When the power comes back, everything that was not durable is gone, or some of it
// is there (Loss), decided by the seed. What runs on it is the engine and the catalog themselves:
// file_system() is their FileSystem, SimulatedRocksDbEnv their RocksDB's.
//
// Thread-safe. Reads see what was written; nothing outside of the disk is touched. Paths are
// absolute; "/" is there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/random.h"

namespace tilekv {

class SimulatedDisk {
 public:
  // What is left of that which was not durable.
  enum class Loss {
    kNothing,     // all: the process ended, the machine goes on
    kEverything,  // nothing
    kPrefix,      // of each file and directory the first changes, the last of them in part
    kTornEnd,     // all but the end of each file: within its last 4 KiB bytes are missing or zero
  };

  explicit SimulatedDisk(uint64_t seed);
  ~SimulatedDisk();

  FileSystem* file_system() { return fs_.get(); }

  // Asked before each call: "open", "create", "read", "write", "truncate", "sync", "unlink",
  // "rename", "make_directory", "remove_directory", "sync_directory". Not OK: the call fails and
  // does nothing. Both are set while no call is running.
  std::function<absl::Status(const std::string& call, const std::string& path)> hook;
  // Asked before a "sync" or "sync_directory". True: it is left out, and nobody is told.
  std::function<bool(const std::string& call, const std::string& path)> leave_out;

  // From now on every call fails, also of files that are open.
  void PowerOff();
  // The same just before the n-th change from now (from 1): a write, a sync, a new entry...
  void PowerOffAtChange(uint64_t n);
  bool is_off();
  // Changes so far.
  uint64_t changes();
  // Drops what was lost. Files that were open stay dead; locks are free.
  void PowerOn(Loss loss);

  // A bit of the file turns over on the disk itself, behind everyone's back.
  void FlipBit(const std::string& path, uint64_t offset);

  // Of the disk as a whole, as Space tells it. Filling up is the hook's matter.
  DiskSpace space{.total_bytes = uint64_t{8} << 30, .available_bytes = uint64_t{6} << 30};

  // --- what file_system() and SimulatedRocksDbEnv are made of; as FileSystem's calls ---
  struct Node;
  struct Handle {  // an open file or directory
    std::shared_ptr<Node> node;
    std::string path;
    uint64_t power_cycle = 0;
  };
  enum class Creation { kNever, kIfMissing, kMustBeNew };
  absl::StatusOr<Handle> Open(const std::string& path, Creation creation);
  absl::StatusOr<uint64_t> Read(const Handle& handle, uint64_t offset, MutableBytes out);
  absl::Status Write(const Handle& handle, uint64_t offset, Bytes data);
  absl::Status Truncate(const Handle& handle, uint64_t size);
  absl::StatusOr<uint64_t> Size(const Handle& handle);
  absl::Status Sync(const Handle& handle);
  absl::Status Unlink(const std::string& path);
  absl::Status Rename(const std::string& from, const std::string& to);
  absl::Status MakeDirectory(const std::string& path);
  absl::Status RemoveDirectory(const std::string& path);
  absl::Status SyncDirectory(const std::string& path);
  absl::StatusOr<std::vector<std::string>> List(const std::string& path);
  absl::StatusOr<std::optional<FileInfo>> Stat(const std::string& path);  // none: absent
  absl::Status Lock(const std::string& path);
  void Unlock(const std::string& path, uint64_t power_cycle);
  uint64_t power_cycle();

 private:
  class DiskFileSystem;
  class DiskFile;
  class DiskLock;
  struct Place;  // of an entry: its directory and name

  absl::Status Begin(const char* call, const std::string& path, bool is_change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckAlive(const Handle& handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Node> Find(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Place> PlaceOf(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Lose(Node& node, Loss loss, std::set<const Node*>& seen)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseBytes(Node& file, Loss loss) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SeededRandom random_;
  const std::unique_ptr<FileSystem> fs_;
  Mutex mutex_;
  std::shared_ptr<Node> root_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 1;
  std::set<std::string> locked_ ABSL_GUARDED_BY(mutex_);
  bool off_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t power_cycle_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t off_at_change_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: never
};

}  // namespace tilekv
