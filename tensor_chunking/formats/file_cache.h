// Open files of a model that is being read: a model can have more files than a process may open.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

// Thread-safe. Keeps the kMaxOpenSourceFiles files used last open; one that is in use stays open
// until its last user lets go.
class FileCache {
 public:
  // `fs` must outlive the cache.
  explicit FileCache(FileSystem& fs) : fs_(fs) {}

  absl::StatusOr<std::shared_ptr<File>> Open(const std::string& path);
  // All of `out` from `offset`, or an error: INVALID_FILE when the file has become too short.
  absl::Status ReadAt(const std::string& path, uint64_t offset, MutableBytes out);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<File>>;

  FileSystem& fs_;
  Mutex mutex_;
  std::list<Entry> files_ ABSL_GUARDED_BY(mutex_);  // the last used first
  std::map<std::string, std::list<Entry>::iterator, std::less<>> by_path_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
