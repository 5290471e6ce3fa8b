#include "kvstore/catalog/memory_catalog.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/catalog/txn_check.h"

namespace tilekv {
namespace {

template <typename Entries>
std::optional<CatalogEntry> Find(const Entries& entries, const std::string& key) {
  auto found = entries.find(key);
  if (found == entries.end()) return std::nullopt;
  return found->second;
}

template <typename Entries>
CatalogPage Page(const Entries& entries, Revision revision, const std::string& start,
                 const std::string& end, size_t limit) {
  CatalogPage page;
  page.revision = revision;
  for (auto at = entries.lower_bound(start); at != entries.end() && at->first < end; ++at) {
    if (page.entries.size() == limit) {
      page.more = true;
      break;
    }
    page.entries.push_back(at->second);
  }
  return page;
}

}  // namespace

class MemoryCatalog::HeldSnapshot : public CatalogSnapshot {
 public:
  HeldSnapshot(std::shared_ptr<const Entries> entries, Revision revision)
      : entries_(std::move(entries)), revision_(revision) {}
  Revision revision() const override { return revision_; }
  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override {
    return Find(*entries_, key);
  }
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                   size_t limit) override {
    TILEKV_RETURN_IF_ERROR(CheckListArguments(end, limit));
    return Page(*entries_, revision_, start, end, limit);
  }

 private:
  const std::shared_ptr<const Entries> entries_;
  const Revision revision_;
};

MemoryCatalog::MemoryCatalog(Clock* clock, Random* random) : leases_(*clock, *random) {
  MutexLock lock(mutex_);
  revision_ = Revision::Of(kFirstEpoch, 1);
  Write(kLineKey, CatalogWrite::Put(kLineKey, NewLineRecord(*random)));
}

MemoryCatalog::Entries& MemoryCatalog::Writable() {
  if (entries_shared_) entries_ = std::make_shared<Entries>(*entries_);
  entries_shared_ = false;
  return *entries_;
}

void MemoryCatalog::Write(const std::string& key, const CatalogWrite& write) {
  Entries& entries = Writable();
  leases_.Attach(key, write.value ? write.lease : 0);
  if (!write.value) {
    entries.erase(key);
    return;
  }
  auto [at, made] = entries.try_emplace(key);
  CatalogEntry& entry = at->second;
  entry.key = key;
  entry.value = *write.value;
  if (made) entry.create_revision = revision_;
  entry.mod_revision = revision_;
}

void MemoryCatalog::EndLease(LeaseId lease) {
  std::vector<std::string> keys = leases_.End(lease);
  if (keys.empty()) return;
  revision_ = revision_.Next();
  for (const std::string& key : keys) Writable().erase(key);
}

void MemoryCatalog::ExpireDue() {
  for (LeaseId lease : leases_.Due()) EndLease(lease);
}

absl::StatusOr<std::optional<CatalogEntry>> MemoryCatalog::Get(const std::string& key) {
  MutexLock lock(mutex_);
  ExpireDue();
  return Find(*entries_, key);
}

absl::StatusOr<CatalogPage> MemoryCatalog::List(const std::string& start, const std::string& end,
                                                size_t limit) {
  TILEKV_RETURN_IF_ERROR(CheckListArguments(end, limit));
  MutexLock lock(mutex_);
  ExpireDue();
  return Page(*entries_, revision_, start, end, limit);
}

absl::StatusOr<TxnResult> MemoryCatalog::Txn(const CatalogTxn& txn) {
  TILEKV_RETURN_IF_ERROR(CheckTxn(txn));
  MutexLock lock(mutex_);
  ExpireDue();
  const Entries& entries = *entries_;
  TILEKV_ASSIGN_OR_RETURN(
      std::optional<size_t> failed,
      FindFailedCompare(
          txn, [&entries](const std::string& key) -> absl::StatusOr<std::optional<KeyRevisions>> {
            auto found = entries.find(key);
            if (found == entries.end()) return std::nullopt;
            return KeyRevisions{found->second.create_revision, found->second.mod_revision};
          }));
  if (failed) return TxnResult{false, revision_, failed};
  for (const CatalogWrite& write : txn.writes) {
    if (write.lease != 0 && !leases_.IsLive(write.lease)) {
      return MakeError(Reason::kSessionLost,
                       fmt::format("the lease of '{}' has ended", Printable(write.key)));
    }
  }
  revision_ = revision_.Next();
  for (const CatalogWrite& write : txn.writes) Write(write.key, write);
  return TxnResult{true, revision_, std::nullopt};
}

absl::StatusOr<std::unique_ptr<CatalogSnapshot>> MemoryCatalog::Snapshot() {
  MutexLock lock(mutex_);
  ExpireDue();
  entries_shared_ = true;
  return std::make_unique<HeldSnapshot>(entries_, revision_);
}

absl::StatusOr<Revision> MemoryCatalog::CurrentRevision() {
  MutexLock lock(mutex_);
  ExpireDue();
  return revision_;
}

absl::StatusOr<LeaseId> MemoryCatalog::Grant(int64_t ttl_s) { return leases_.Grant(ttl_s); }

absl::StatusOr<bool> MemoryCatalog::KeepAlive(LeaseId lease, int64_t ttl_s) {
  return leases_.KeepAlive(lease, ttl_s);
}

absl::Status MemoryCatalog::Revoke(LeaseId lease) {
  MutexLock lock(mutex_);
  EndLease(lease);
  return absl::OkStatus();
}

}  // namespace tilekv
