// Room on the disk: what puts in flight will take, what must stay free, and a ballast that is given
// up so that a store on a full disk opens and deletes. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/mutex.h"
#include "kvstore/object/store_health.h"

namespace tilekv {

class DiskReserve;

// Bytes promised to a put and not yet written. Movable; given back when destroyed.
class SpaceClaim {
 public:
  SpaceClaim() = default;
  SpaceClaim(SpaceClaim&& other) noexcept { *this = std::move(other); }
  SpaceClaim& operator=(SpaceClaim&& other) noexcept;
  ~SpaceClaim() { Used(bytes_); }
  // These bytes are on the disk now, or not needed any more: at most all of them count.
  void Used(uint64_t bytes);
  uint64_t bytes() const { return bytes_; }

 private:
  friend class DiskReserve;
  DiskReserve* reserve_ = nullptr;
  uint64_t bytes_ = 0;
};

class DiskReserve {
 public:
  // An opening writes before anything can be deleted: gives the ballast up where there is too
  // little room for that. Before anything else of the store is opened for writing.
  static void MakeRoomToOpen(FileSystem* fs, const std::string& directory);
  // Makes the ballast where the disk is large enough and has room; not being able to is a notice.
  static absl::StatusOr<std::unique_ptr<DiskReserve>> Open(FileSystem* fs,
                                                           const std::string& directory,
                                                           StoreHealth* health);
  // STORE_FULL where the disk would fall below the reserve.
  absl::Status Claim(uint64_t bytes, SpaceClaim& claim);
  // The same question without a claim.
  absl::Status CheckRoom(uint64_t bytes);
  // Deletes need a little room for the index; called before one.
  void MakeRoomForDelete();
  // min(2 GiB, max(2 % of the disk, 64 MiB)).
  uint64_t reserve_bytes() const { return reserve_bytes_; }
  absl::StatusOr<DiskSpace> Space() { return fs_->Space(directory_); }

 private:
  friend class SpaceClaim;
  DiskReserve(FileSystem* fs, std::string directory, uint64_t total_bytes);
  absl::Status MakeBallast();
  absl::Status CheckRoomLocked(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  FileSystem* const fs_;
  const std::string directory_;
  const uint64_t reserve_bytes_;
  Mutex mutex_;
  uint64_t claimed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_ballast_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tilekv
