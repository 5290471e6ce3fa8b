#include "kvstore/object/store_health.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

StoreHealth::StoreHealth(std::function<void(const std::string&)> notice)
    : notice_(std::move(notice)) {}

absl::Status StoreHealth::CheckWritable() {
  if (!failed()) return absl::OkStatus();
  MutexLock lock(mutex_);
  return error_;
}

absl::Status StoreHealth::AfterDirectorySync(const absl::Status& synced) {
  if (synced.ok() || GetReason(synced) == Reason::kOverloaded) return synced;
  return Fail(synced);
}

absl::Status StoreHealth::Fail(const absl::Status& cause) {
  absl::Status error;
  {
    MutexLock lock(mutex_);
    if (!error_.ok()) return error_;
    error_ = error = MakeError(
        Reason::kStoreFailed,
        fmt::format("writing to disk failed, so this store takes no more writes until it is "
                    "restarted on a disk that works: {}",
                    ErrorText(cause)));
    failed_.store(true, std::memory_order_release);
  }
  Notice(ErrorText(error));
  return error;
}

void StoreHealth::Notice(const std::string& text) const {
  if (notice_ != nullptr) notice_(text);
}

}  // namespace tilekv
