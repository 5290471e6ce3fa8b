// DIR/payload: files by number, and the numbers themselves, which are never used twice.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/mutex.h"
#include "kvstore/object/group_sync.h"
#include "kvstore/object/object_index.h"
#include "kvstore/object/store_health.h"

namespace tilekv {

// DIR/payload/<number / 4096>/<number>.
std::string PayloadPath(const std::string& directory, uint64_t number);

class PayloadDirectory {
 public:
  // Notes in `opening`, which the caller writes, that a writer has opened the store. Everything
  // outlives this object.
  static absl::StatusOr<std::unique_ptr<PayloadDirectory>> Open(FileSystem* fs,
                                                                const std::string& directory,
                                                                ObjectIndex* index,
                                                                StoreHealth* health,
                                                                ObjectIndex::Batch& opening);

  // A number that was never used; the folder of its file is there, durably.
  absl::StatusOr<uint64_t> TakeNumber();
  std::string PathOf(uint64_t number) const { return PayloadPath(directory_, number); }
  // The file's directory entry is durable when this returns OK. A failure ends writing.
  absl::Status SyncEntryOf(uint64_t number);
  // Removes a file that no row names. Failing leaves garbage for RemoveUnnamed.
  void Remove(uint64_t number);
  // Removes files that no row names and that cannot belong to a put in progress, nor to a row that
  // RocksDB's log may have lost: of numbers used before the previous opening, at which all rows
  // left the log for good. Returns how many.
  absl::StatusOr<uint64_t> RemoveUnnamed();

 private:
  PayloadDirectory(FileSystem* fs, const std::string& directory, ObjectIndex* index,
                   StoreHealth* health)
      : fs_(fs), directory_(directory), index_(index), health_(health), group_sync_(fs) {}
  absl::Status MakeFolder(uint64_t folder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<uint64_t> RemoveUnnamedIn(const std::string& folder);

  FileSystem* const fs_;
  const std::string directory_;
  ObjectIndex* const index_;
  StoreHealth* const health_;
  GroupSync group_sync_;
  uint64_t removable_below_ = 0;
  Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t reserved_end_ ABSL_GUARDED_BY(mutex_) = 1;   // `numbers` as synced
  std::set<uint64_t> folders_ ABSL_GUARDED_BY(mutex_);  // made or seen by this process
};

}  // namespace tilekv
