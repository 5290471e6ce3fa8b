#include "kvstore/cluster/gated_catalog.h"

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace

void GatedCatalog::Answered(const absl::Status& status) {
  if (!status.ok() && GetReason(status) != Reason::kNodeUnavailable) return;
  MutexLock lock(mutex_);
  shut_ = status;
}

bool GatedCatalog::is_shut() { return !CheckOpen().ok(); }

absl::Status GatedCatalog::CheckOpen() {
  MutexLock lock(mutex_);
  return shut_;
}

template <typename Call>
auto GatedCatalog::Through(Call call) -> decltype(call()) {
  TILEKV_RETURN_IF_ERROR(CheckOpen());
  auto result = call();
  // A success may have begun before the gate was shut: only a failure says something new.
  if (!result.ok()) Answered(StatusOf(result));
  return result;
}

absl::StatusOr<std::optional<CatalogEntry>> GatedCatalog::Get(const std::string& key) {
  return Through([&] { return catalog_.Get(key); });
}
absl::StatusOr<CatalogPage> GatedCatalog::List(const std::string& start, const std::string& end,
                                               size_t limit) {
  return Through([&] { return catalog_.List(start, end, limit); });
}
absl::StatusOr<TxnResult> GatedCatalog::Txn(const CatalogTxn& txn) {
  return Through([&] { return catalog_.Txn(txn); });
}
absl::StatusOr<std::unique_ptr<CatalogSnapshot>> GatedCatalog::Snapshot() {
  return Through([&] { return catalog_.Snapshot(); });
}
absl::StatusOr<Revision> GatedCatalog::CurrentRevision() {
  return Through([&] { return catalog_.CurrentRevision(); });
}
absl::Status GatedCatalog::Compact(Revision revision) {
  return Through([&] { return catalog_.Compact(revision); });
}
absl::StatusOr<LeaseId> GatedCatalog::Grant(int64_t ttl_s) {
  return Through([&] { return catalog_.Grant(ttl_s); });
}
absl::StatusOr<bool> GatedCatalog::KeepAlive(LeaseId lease, int64_t ttl_s) {
  return Through([&] { return catalog_.KeepAlive(lease, ttl_s); });
}
absl::Status GatedCatalog::Revoke(LeaseId lease) {
  return Through([&] { return catalog_.Revoke(lease); });
}

}  // namespace tilekv
