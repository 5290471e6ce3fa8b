// The content of one deflated member of an archive, in a file of its own that has no name: for
// readers that jump. A deflated member is decoded forwards only, so an array in Fortran order,
// whose every group of rows needs a piece of each column, would be decoded once for each group.
//
// The file is made at the first read, in TMPDIR or else in /var/tmp, and takes at most half of the
// room that is free there. Where it cannot be made, reads go to the member: slower, never wrong.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/sizes.h"
#include "tensor_chunking/formats/zip_member.h"

namespace tilekv {

// Smaller members are read where they stand.
inline constexpr uint64_t kLeastCopiedBytes = 1 * kMiB;

// Thread-safe.
class InflatedCopy {
 public:
  // Both outlive it.
  InflatedCopy(FileSystem& fs, ZipMemberReader& member) : fs_(fs), member_(member) {}

  // As ZipMemberReader::Read. The first call decodes all of the member; others wait for it.
  absl::Status Read(ReadFileBytes archive, uint64_t offset, MutableBytes out);
  // `bytes` of what the readers wanted are done. With the last of `total_bytes` the file goes; a
  // later read makes another.
  void Delivered(uint64_t bytes, uint64_t total_bytes);

 private:
  // Null: there is no room for one.
  absl::StatusOr<std::shared_ptr<File>> Get(ReadFileBytes archive);
  absl::StatusOr<std::shared_ptr<File>> Make(ReadFileBytes archive);

  FileSystem& fs_;
  ZipMemberReader& member_;
  Mutex mutex_;
  std::shared_ptr<File> file_ ABSL_GUARDED_BY(mutex_);
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t delivered_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tilekv
