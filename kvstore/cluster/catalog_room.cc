#include "kvstore/cluster/catalog_room.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {

CatalogRoom::CatalogRoom(uint64_t quota_bytes, std::function<void(const std::string&)> notice)
    : quota_bytes_(quota_bytes),
      notice_(std::move(notice)),
      figures_(MakeError(Reason::kNodeUnavailable, "etcd was not asked yet")) {}

void CatalogRoom::Look(const absl::StatusOr<CatalogFigures>& figures) {
  {
    MutexLock lock(mutex_);
    figures_ = figures;
  }
  // One that does not answer takes no names either.
  if (!figures.ok()) return;
  const uint64_t used_percent =
      quota_bytes_ == 0 ? 0 : figures->database_bytes / (quota_bytes_ / 100 + 1);
  const Level level = used_percent >= kEtcdRefusePercent ? kRefused
                      : used_percent >= kEtcdWarnPercent ? kWarned
                                                         : kRoom;
  if (level_.exchange(level) == level || notice_ == nullptr) return;
  notice_(fmt::format("etcd has used up {} % of its quota of {}; {} of its {} are in use. {}",
                      used_percent, FormatSizeShort(quota_bytes_),
                      FormatSize(figures->in_use_bytes), FormatSize(figures->database_bytes),
                      level == kRefused  ? "New names are refused: remove some, then compact and "
                                           "defragment etcd, or raise its quota and --etcd-quota"
                      : level == kWarned ? "Compact and defragment it, or raise the quota"
                                         : "There is room again"));
}

absl::Status CatalogRoom::Check() const {
  if (level_ != kRefused) return absl::OkStatus();
  return MakeError(Reason::kStoreFull,
                   fmt::format("etcd has used up {} % of its quota of {}: no new names are taken. "
                               "Remove some, then compact and defragment etcd, or raise its quota "
                               "and --etcd-quota",
                               kEtcdRefusePercent, FormatSizeShort(quota_bytes_)));
}

absl::StatusOr<CatalogFigures> CatalogRoom::figures() {
  MutexLock lock(mutex_);
  return figures_;
}

}  // namespace tilekv
