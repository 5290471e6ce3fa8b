#include "kvstore/object/disk_reserve.h"

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

// Less than this, and a delete might not find room for its row and for RocksDB's files.
constexpr uint64_t kDeleteRoomBytes = 64 * kMiB;

uint64_t ReserveOf(uint64_t total_bytes) {
  return std::min(kReserveMaxBytes,
                  std::max(total_bytes / 100 * kReservePercent, kReserveMinBytes));
}

std::string BallastIn(const std::string& directory) { return directory + "/BALLAST"; }

bool IsShort(const absl::StatusOr<DiskSpace>& space) {
  return space.ok() && space->available_bytes < kDeleteRoomBytes;
}

}  // namespace

SpaceClaim& SpaceClaim::operator=(SpaceClaim&& other) noexcept {
  if (this == &other) return *this;
  Used(bytes_);
  reserve_ = std::exchange(other.reserve_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void SpaceClaim::Used(uint64_t bytes) {
  bytes = std::min(bytes, bytes_);
  if (bytes == 0) return;
  bytes_ -= bytes;
  MutexLock lock(reserve_->mutex_);
  reserve_->claimed_bytes_ -= bytes;
}

DiskReserve::DiskReserve(FileSystem* fs, std::string directory, uint64_t total_bytes)
    : fs_(fs), directory_(std::move(directory)), reserve_bytes_(ReserveOf(total_bytes)) {}

void DiskReserve::MakeRoomToOpen(FileSystem* fs, const std::string& directory) {
  // Whether it worked, and whether there was one, shows in what follows.
  if (IsShort(fs->Space(directory))) fs->Unlink(BallastIn(directory)).IgnoreError();
}

absl::StatusOr<std::unique_ptr<DiskReserve>> DiskReserve::Open(FileSystem* fs,
                                                               const std::string& directory,
                                                               StoreHealth* health) {
  TILEKV_ASSIGN_OR_RETURN(DiskSpace space, fs->Space(directory));
  std::unique_ptr<DiskReserve> reserve(new DiskReserve(fs, directory, space.total_bytes));
  TILEKV_ASSIGN_OR_RETURN(bool exists, fs->Exists(BallastIn(directory)));
  bool wanted = space.total_bytes > kBallastOnDisksOverBytes &&
                space.available_bytes > reserve->reserve_bytes_ + 2 * kBallastBytes;
  if (!exists && wanted) {
    absl::Status made = reserve->MakeBallast();
    if (!made.ok()) health->Notice(fmt::format("no ballast: {}", ErrorText(made)));
    exists = made.ok();
  }
  MutexLock lock(reserve->mutex_);
  reserve->has_ballast_ = exists;
  return reserve;
}

absl::Status DiskReserve::MakeBallast() {
  absl::Status made;
  {
    TILEKV_ASSIGN_OR_RETURN(auto file,
                            fs_->Open(BallastIn(directory_), FileSystem::OpenMode::kCreateNew));
    made = file->Allocate(kBallastBytes);
  }
  if (!made.ok()) made.Update(fs_->Unlink(BallastIn(directory_)));  // keeps the first error
  return made;
}

absl::Status DiskReserve::CheckRoomLocked(uint64_t bytes) {
  TILEKV_ASSIGN_OR_RETURN(DiskSpace space, Space());
  if (space.available_bytes >= claimed_bytes_ + bytes + reserve_bytes_) return absl::OkStatus();
  return MakeError(
      Reason::kStoreFull,
      fmt::format(
          "the disk of '{}' has {} free; {} more on it would leave less than the reserve of "
          "{}{}; free some space, or remove versions and collect",
          Printable(directory_), FormatSize(space.available_bytes), FormatSize(bytes),
          FormatSizeShort(reserve_bytes_),
          claimed_bytes_ == 0
              ? ""
              : fmt::format(" ({} are promised to others)", FormatSize(claimed_bytes_))));
}

absl::Status DiskReserve::CheckRoom(uint64_t bytes) {
  MutexLock lock(mutex_);
  return CheckRoomLocked(bytes);
}

absl::Status DiskReserve::Claim(uint64_t bytes, SpaceClaim& claim) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(CheckRoomLocked(bytes));
  claimed_bytes_ += bytes;
  claim.reserve_ = this;
  claim.bytes_ += bytes;
  return absl::OkStatus();
}

void DiskReserve::MakeRoomForDelete() {
  MutexLock lock(mutex_);
  if (!has_ballast_) return;
  if (!IsShort(Space())) return;
  // Whether it worked shows when the delete is written; the next opening makes a new one.
  has_ballast_ = !fs_->Unlink(BallastIn(directory_)).ok();
}

}  // namespace tilekv
