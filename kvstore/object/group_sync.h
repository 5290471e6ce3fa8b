// Directory syncs shared by concurrent puts: whoever comes while one runs waits for the next, which
// then serves all who wait. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

class GroupSync {
 public:
  explicit GroupSync(FileSystem* fs) : fs_(fs) {}

  // When this returns OK, a sync of the directory that began after the call has ended well. A
  // failure goes to everyone whom that sync served, and to every later call. OVERLOADED, where none
  // could begin, goes to one caller; those who wait try for themselves.
  absl::Status SyncDirectory(const std::string& path);

 private:
  struct Round {
    bool running = false;
    uint64_t asked = 0;    // calls so far
    uint64_t covered = 0;  // calls served by syncs that have ended
    absl::Status failure;  // the first one; later calls may not count on earlier entries
  };

  FileSystem* const fs_;
  Mutex mutex_;
  CondVar ended_;
  std::map<std::string, Round> rounds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
