// DIR/CLUSTER: what a node of a cluster remembers about it, and the block that its heartbeat
// overwrites (docs/formats.md, section 4). Its blocks are written in their places, so that a full
// disk never stops it. Thread-safe; calls block until the disk has answered.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/mutex.h"
#include "kvstore/placement/map_version.h"

namespace tilekv {

// The newest cluster map that the node has acted on. An older one, or another one of the same
// version, comes from a catalog that has gone back.
struct SeenMap {
  std::string line_id;  // of the catalog that had it: 32 hexadecimal digits
  MapVersion version;   // 0: none was seen yet
  std::string hash;     // of the map's bytes: 64 hexadecimal digits

  friend bool operator==(const SeenMap&, const SeenMap&) = default;
};

class ClusterFile {
 public:
  // Made, durably, where it is not there. DATA_LOSS where what it said cannot be told any more.
  static absl::StatusOr<std::unique_ptr<ClusterFile>> Open(FileSystem& fs,
                                                           const std::string& directory);

  SeenMap seen();
  // Durable when this returns; after an error the earlier one counts.
  absl::Status Save(const SeenMap& seen);
  // Overwrites the heartbeat's block. Fails where the disk does: for good once a sync has failed.
  absl::Status Beat();

 private:
  ClusterFile(std::unique_ptr<File> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  absl::Status Load();
  absl::Status WriteBlock(size_t block, const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<File> file_;
  const std::string path_;
  Mutex mutex_;
  SeenMap seen_ ABSL_GUARDED_BY(mutex_);
  uint64_t writes_ ABSL_GUARDED_BY(mutex_) = 0;  // of Save, in the file's whole life
  uint64_t beats_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);  // the first failed sync
};

}  // namespace tilekv
