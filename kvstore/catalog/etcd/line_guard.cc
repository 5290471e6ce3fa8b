#include "kvstore/catalog/etcd/line_guard.h"

#include "kvstore/base/status.h"

namespace tilekv {

absl::Status LineGuard::Check() const {
  if (went_back_) {
    return MakeError(Reason::kCatalogRewound,
                     "etcd has gone back to an earlier state of itself: it was restored from a "
                     "backup, or lost what it had acknowledged");
  }
  if (line_changed_) {
    return MakeError(Reason::kCatalogRewound,
                     "the catalog in etcd is on another line than when it was opened: it was "
                     "recovered, or it is another one; start this process again");
  }
  return absl::OkStatus();
}

void LineGuard::Answered(int64_t seen, int64_t revision) {
  if (revision < seen) went_back_ = true;
  int64_t greatest = seen_;
  while (revision > greatest && !seen_.compare_exchange_weak(greatest, revision)) {
  }
}

}  // namespace tilekv
