// What a store is compared with: the same bytes through files and through TCP, without a store.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/cli/perf.h"
#include "kvstore/base/bytes.h"

namespace tilekv {

// Files in a folder of their own below another, which is there; they go with this object.
// Thread-safe, one index by one thread at a time.
class RawFiles {
 public:
  static absl::StatusOr<std::unique_ptr<RawFiles>> Create(const std::string& parent);
  ~RawFiles();

  // With O_DIRECT, where the file system takes it, and synced. Bytes.
  absl::StatusOr<uint64_t> Write(uint64_t index, Bytes tile);
  // 0 where it was not written.
  absl::StatusOr<uint64_t> Read(uint64_t index, MutableBytes tile);

 private:
  explicit RawFiles(std::string folder) : folder_(std::move(folder)) {}
  std::string PathOf(uint64_t index) const;

  const std::string folder_;
  std::atomic<uint64_t> files_{0};  // above the greatest index
};

// One stream over the loopback, from one thread to another, in pieces of a transfer's.
absl::StatusOr<PerfFigure> MeasureLoopback(const PerfOptions& options);

}  // namespace tilekv
