// DIR/payload: files by number, and the numbers themselves, which are never used twice.
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

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
  // Everything outlives this object.
  static absl::StatusOr<std::unique_ptr<PayloadDirectory>> Open(FileSystem* fs,
                                                                const std::string& directory,
                                                                ObjectIndex* index,
                                                                StoreHealth* health);

  // A number that was never used; the folder of its file is there, durably.
  absl::StatusOr<uint64_t> TakeNumber();
  std::string PathOf(uint64_t number) const { return PayloadPath(directory_, number); }
  // The file's directory entry is durable when this returns OK. A failed sync ends writing.
  absl::Status SyncEntryOf(uint64_t number);
  // Removes a file that no row names. Failing leaves garbage for RemoveUnnamed.
  void Remove(uint64_t number);
  // Removes files that no row names and that cannot belong to a put in progress: of numbers below
  // the first of this opening. A row that the index lacked then does not come back, as opening
  // loses nothing of its log but a torn end that was never acknowledged. Removes nothing where that
  // is in doubt. Returns how many.
  absl::StatusOr<uint64_t> RemoveUnnamed();
  // An opening, this one or one before, left out what may be more than a torn write: a file that no
  // row names may be an object's.
  absl::StatusOr<bool> InDoubt();
  // All that names need is here: then it was none.
  absl::Status EndDoubt();
  // The same files, told one by one until `visit` gives an error.
  using UnnamedFound = std::function<absl::Status(uint64_t number, const std::string& path)>;
  absl::Status VisitUnnamed(const UnnamedFound& visit);

 private:
  PayloadDirectory(FileSystem* fs, const std::string& directory, ObjectIndex* index,
                   StoreHealth* health, uint64_t numbers)
      : fs_(fs),
        directory_(directory),
        index_(index),
        health_(health),
        first_number_(numbers),
        group_sync_(fs),
        next_(numbers),
        reserved_end_(numbers) {}
  absl::Status MakeFolder(uint64_t folder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<std::string>> DroppedFiles();
  absl::Status VisitUnnamedIn(const std::string& folder, const UnnamedFound& visit);

  FileSystem* const fs_;
  const std::string directory_;
  ObjectIndex* const index_;
  StoreHealth* const health_;
  const uint64_t first_number_;  // of this process: below it no put is in progress
  GroupSync group_sync_;
  Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_);
  uint64_t reserved_end_ ABSL_GUARDED_BY(mutex_);       // `numbers` as synced
  std::set<uint64_t> folders_ ABSL_GUARDED_BY(mutex_);  // made or seen by this process
};

}  // namespace tilekv
