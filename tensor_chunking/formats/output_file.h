// A file that appears whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/random.h"

namespace tilekv {

// Of the names of files that are being written.
inline constexpr std::string_view kTemporaryPrefix = ".tilekv-";

// Written under a temporary name beside its destination, then synced and renamed. Without Commit
// nothing is left of it (a killed process leaves the temporary, `.tilekv-<16 digits>.tmp`). WriteAt
// may be called from several threads, Commit and the destructor when all writes have returned.
class OutputFile {
 public:
  // INVALID_ARGUMENT when `path` exists and `overwrite` is false, or is a folder. `fs` must outlive
  // the file.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(FileSystem& fs, const std::string& path,
                                                            bool overwrite,
                                                            Random& random = *Random::System());
  ~OutputFile();

  absl::Status WriteAt(uint64_t offset, Bytes data) { return file_->Write(offset, data); }
  // Durable at its destination when this returns. Checks again that nothing has come there.
  absl::Status Commit();

  const std::string& path() const { return path_; }

 private:
  OutputFile(FileSystem& fs, std::string path, bool overwrite)
      : fs_(fs), path_(std::move(path)), overwrite_(overwrite) {}
  absl::Status CheckDestination() const;

  FileSystem& fs_;
  const std::string path_;
  const bool overwrite_;
  std::string temporary_;
  std::unique_ptr<File> file_;  // none once committed
};

}  // namespace tilekv
