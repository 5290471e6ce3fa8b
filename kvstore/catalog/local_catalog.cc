#include "kvstore/catalog/local_catalog.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/catalog_db.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/catalog/txn_check.h"
#include "rocksdb/write_batch.h"

namespace tilekv {
namespace {

constexpr size_t kMaxTransactionsInBatch = 256;

absl::Status ReadOnlyError() {
  return MakeError(Reason::kPermissionDenied, "the catalog is open for reading only");
}

std::optional<CatalogEntry> ToEntry(const std::string& key, std::optional<StoredEntry> stored) {
  if (!stored) return std::nullopt;
  return CatalogEntry{key, std::move(stored->value), stored->create, stored->mod};
}

}  // namespace

// What the transactions of one batch have written so far.
struct LocalCatalog::Batch {
  CatalogDb& db;
  Revision revision;  // the newest
  rocksdb::WriteBatch writes{};
  std::map<std::string, std::optional<StoredEntry>> written{};  // none: deleted
  std::vector<std::pair<std::string, LeaseId>> attached{};      // in order
  std::vector<LeaseId> ended{};
  absl::Status broken{};  // a transaction is in `writes` by halves: the batch cannot be written

  bool HasEnded(LeaseId lease) const {
    return std::find(ended.begin(), ended.end(), lease) != ended.end();
  }

  absl::StatusOr<std::optional<StoredEntry>> Find(const std::string& key) {
    if (auto found = written.find(key); found != written.end()) return found->second;
    return db.Get(key, nullptr);
  }

  absl::Status Write(const CatalogWrite& write) {
    absl::StatusOr<std::optional<StoredEntry>> found = Find(write.key);
    if (!found.ok()) return broken = found.status();
    const std::optional<StoredEntry>& old = *found;
    LeaseId old_lease = old ? old->lease : 0;
    if (write.value) {
      StoredEntry entry{old ? old->create : revision, revision, write.lease, *write.value};
      CatalogDb::PutEntry(writes, write.key, entry, old_lease);
      written[write.key] = std::move(entry);
      attached.emplace_back(write.key, write.lease);
    } else if (old) {
      CatalogDb::DeleteEntry(writes, write.key, old_lease);
      written[write.key] = std::nullopt;
      attached.emplace_back(write.key, 0);
    }
    return absl::OkStatus();
  }
};

class LocalCatalog::HeldSnapshot : public CatalogSnapshot {
 public:
  HeldSnapshot(CatalogDb& db, const rocksdb::Snapshot* held) : db_(db), held_(held) {}
  ~HeldSnapshot() override { db_.Release(held_); }

  absl::Status Start() {
    TILEKV_ASSIGN_OR_RETURN(revision_, db_.ReadRevision(held_));
    return absl::OkStatus();
  }
  Revision revision() const override { return revision_; }
  absl::StatusOr<std::optional<CatalogEntry>> Get(const std::string& key) override {
    TILEKV_ASSIGN_OR_RETURN(std::optional<StoredEntry> stored, db_.Get(key, held_));
    return ToEntry(key, std::move(stored));
  }
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end,
                                   size_t limit) override {
    TILEKV_RETURN_IF_ERROR(CheckListArguments(end, limit));
    return db_.List(start, end, limit, held_);
  }

 private:
  CatalogDb& db_;
  const rocksdb::Snapshot* const held_;
  Revision revision_;
};

absl::StatusOr<std::unique_ptr<LocalCatalog>> LocalCatalog::Open(
    const LocalCatalogOptions& options) {
  CatalogDbOptions db_options;
  db_options.directory = options.directory + "/catalog";
  db_options.create_if_missing = options.create_if_missing;
  db_options.read_only = options.read_only;
  db_options.env = options.rocksdb_env;
  db_options.store_uuid = options.store_uuid;
  db_options.notice = options.notice;
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogDb> db, CatalogDb::Open(db_options));
  auto catalog = std::unique_ptr<LocalCatalog>(new LocalCatalog(options, std::move(db)));
  TILEKV_RETURN_IF_ERROR(catalog->Start());
  return catalog;
}

LocalCatalog::LocalCatalog(const LocalCatalogOptions& options, std::unique_ptr<CatalogDb> db)
    : options_(options), db_(std::move(db)), leases_(*options.clock, *options.random) {}

LocalCatalog::~LocalCatalog() = default;

absl::Status LocalCatalog::Start() {
  TILEKV_ASSIGN_OR_RETURN(revision_, db_->ReadRevision(nullptr));
  if (db_->read_only()) return absl::OkStatus();
  TILEKV_CRASH_POINT("open.catalog");
  if (revision_.value == 0) {
    revision_ = Revision::Of(kFirstEpoch, 0);
    CatalogTxn first;
    first.compares.push_back(Compare::Absent(kLineKey));
    first.writes.push_back(CatalogWrite::Put(kLineKey, NewLineRecord(*options_.random)));
    return Txn(first).status();
  }
  TILEKV_ASSIGN_OR_RETURN(auto leased, db_->LeasedKeys());
  if (leased.empty()) return absl::OkStatus();
  rocksdb::WriteBatch batch;
  for (const auto& [lease, key] : leased) CatalogDb::DeleteEntry(batch, key, lease);
  TILEKV_CRASH_POINT("open.before_leases_end");
  revision_ = revision_.Next();
  CatalogDb::SetRevision(batch, revision_);
  return db_->Write(batch);
}

absl::Status LocalCatalog::BeforeRead() {
  if (db_->read_only()) return db_->Refresh();
  if (!leases_.AnyDue() || !CheckWritable().ok()) return absl::OkStatus();
  Waiting end;
  end.leases = leases_.Due();
  absl::Status ended = Submit(end).status();
  return CheckWritable().ok() ? ended : absl::OkStatus();
}

TableFiles* LocalCatalog::tables() { return db_->tables(); }

absl::Status LocalCatalog::CheckWritable() {
  MutexLock lock(mutex_);
  return failed_;
}

absl::StatusOr<std::optional<CatalogEntry>> LocalCatalog::Get(const std::string& key) {
  TILEKV_RETURN_IF_ERROR(BeforeRead());
  TILEKV_ASSIGN_OR_RETURN(std::optional<StoredEntry> stored, db_->Get(key, nullptr));
  return ToEntry(key, std::move(stored));
}

absl::StatusOr<CatalogPage> LocalCatalog::List(const std::string& start, const std::string& end,
                                               size_t limit) {
  // Of one state: the page and its revision belong together.
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<CatalogSnapshot> snapshot, Snapshot());
  return snapshot->List(start, end, limit);
}

absl::StatusOr<std::unique_ptr<CatalogSnapshot>> LocalCatalog::Snapshot() {
  TILEKV_RETURN_IF_ERROR(BeforeRead());
  auto snapshot = std::make_unique<HeldSnapshot>(*db_, db_->Hold());
  TILEKV_RETURN_IF_ERROR(snapshot->Start());
  return snapshot;
}

absl::StatusOr<Revision> LocalCatalog::CurrentRevision() {
  TILEKV_RETURN_IF_ERROR(BeforeRead());
  return db_->ReadRevision(nullptr);
}

absl::StatusOr<LeaseId> LocalCatalog::Grant(int64_t ttl_s) {
  if (db_->read_only()) return ReadOnlyError();
  return leases_.Grant(ttl_s);
}

absl::StatusOr<bool> LocalCatalog::KeepAlive(LeaseId lease, int64_t ttl_s) {
  return leases_.KeepAlive(lease, ttl_s);
}

absl::Status LocalCatalog::Revoke(LeaseId lease) {
  if (db_->read_only()) return ReadOnlyError();
  Waiting end;
  end.leases.push_back(lease);
  return Submit(end).status();
}

absl::StatusOr<uint64_t> LocalCatalog::LogInDoubt() {
  TILEKV_ASSIGN_OR_RETURN(std::vector<uint64_t> dropped, db_->DroppedLogs());
  return dropped.empty() ? 0 : dropped.back();
}

absl::Status LocalCatalog::EndDoubt() {
  if (db_->read_only()) return ReadOnlyError();
  return db_->ForgetDropped();
}

absl::StatusOr<TxnResult> LocalCatalog::Txn(const CatalogTxn& txn) {
  if (db_->read_only()) return ReadOnlyError();
  TILEKV_RETURN_IF_ERROR(CheckTxn(txn));
  Waiting waiting;
  waiting.txn = &txn;
  return Submit(waiting);
}

absl::StatusOr<TxnResult> LocalCatalog::Submit(Waiting& waiting) {
  mutex_.Lock();
  queue_.push_back(&waiting);
  while (!waiting.done) {
    if (leading_) {
      waiting.turn.Wait(mutex_);
      continue;
    }
    leading_ = true;
    std::deque<Waiting*> taken;
    while (!queue_.empty() && taken.size() < kMaxTransactionsInBatch) {
      taken.push_back(queue_.front());
      queue_.pop_front();
    }
    mutex_.Unlock();
    Lead(taken);
    mutex_.Lock();
    // Only whoever has something to do is woken: all of them at once would cost more than the
    // write.
    for (Waiting* done : taken) {
      done->done = true;
      if (done != &waiting) done->turn.Signal();
    }
    leading_ = false;
    if (!queue_.empty()) queue_.front()->turn.Signal();
  }
  mutex_.Unlock();
  return std::move(waiting.result);
}

void LocalCatalog::Lead(std::deque<Waiting*>& taken) {
  absl::Status outcome = CheckWritable();
  if (outcome.ok()) outcome = RunBatch(taken);
  if (outcome.ok()) return;
  // Also where a compare failed: it was decided on what has not been written.
  for (Waiting* waiting : taken) {
    if (GetReason(waiting->result.status()) != Reason::kOutcomeUnknown) waiting->result = outcome;
  }
}

absl::Status LocalCatalog::RunBatch(std::deque<Waiting*>& taken) {
  Batch batch{*db_, revision_};
  TILEKV_RETURN_IF_ERROR(EvaluateEnd(batch, leases_.Due()).status());
  for (Waiting* waiting : taken) {
    waiting->result = waiting->txn != nullptr ? Evaluate(batch, *waiting->txn)
                                              : EvaluateEnd(batch, waiting->leases);
    TILEKV_RETURN_IF_ERROR(batch.broken);
  }
  if (batch.revision != revision_) TILEKV_RETURN_IF_ERROR(WriteBatch(batch, taken));
  for (const auto& [key, lease] : batch.attached) leases_.Attach(key, lease);
  for (LeaseId lease : batch.ended) leases_.End(lease);
  return absl::OkStatus();
}

absl::Status LocalCatalog::WriteBatch(Batch& batch, std::deque<Waiting*>& taken) {
  CatalogDb::SetRevision(batch.writes, batch.revision);
  TILEKV_CRASH_POINT("catalog.before_write");
  absl::Status written = db_->Write(batch.writes);
  TILEKV_CRASH_POINT("catalog.after_write");
  if (written.ok()) {
    revision_ = batch.revision;
    return absl::OkStatus();
  }
  absl::Status unknown = MakeError(
      Reason::kOutcomeUnknown,
      fmt::format(
          "writing to the catalog failed, and whether this was written shows when the store "
          "is opened again; until then it takes no more writes: {}",
          ErrorText(written)));
  for (Waiting* waiting : taken) {
    if (waiting->result.ok() && waiting->result->applied) waiting->result = unknown;
  }
  MutexLock lock(mutex_);
  failed_ = MakeError(
      Reason::kStoreFailed,
      fmt::format("the catalog takes no more writes since one failed: {}", ErrorText(written)));
  return failed_;
}

absl::StatusOr<TxnResult> LocalCatalog::Evaluate(Batch& batch, const CatalogTxn& txn) {
  TILEKV_ASSIGN_OR_RETURN(
      std::optional<size_t> failed,
      FindFailedCompare(
          txn, [&batch](const std::string& key) -> absl::StatusOr<std::optional<KeyRevisions>> {
            TILEKV_ASSIGN_OR_RETURN(std::optional<StoredEntry> entry, batch.Find(key));
            if (!entry) return std::nullopt;
            return KeyRevisions{entry->create, entry->mod};
          }));
  if (failed) return TxnResult{false, batch.revision, failed};
  for (const CatalogWrite& write : txn.writes) {
    if (write.lease != 0 && (!leases_.IsLive(write.lease) || batch.HasEnded(write.lease))) {
      return MakeError(Reason::kSessionLost,
                       fmt::format("the lease of '{}' has ended", Printable(write.key)));
    }
  }
  batch.revision = batch.revision.Next();
  for (const CatalogWrite& write : txn.writes) TILEKV_RETURN_IF_ERROR(batch.Write(write));
  return TxnResult{true, batch.revision, std::nullopt};
}

absl::StatusOr<TxnResult> LocalCatalog::EvaluateEnd(Batch& batch,
                                                    const std::vector<LeaseId>& leases) {
  for (LeaseId lease : leases) {
    batch.ended.push_back(lease);
    std::vector<std::string> keys = leases_.KeysOf(lease);
    // Attached by a transaction of this very batch: not in the table yet.
    for (const auto& [key, attached] : batch.attached) {
      if (attached == lease) keys.push_back(key);
    }
    bool first = true;
    for (const std::string& key : keys) {
      absl::StatusOr<std::optional<StoredEntry>> entry = batch.Find(key);
      if (!entry.ok()) return batch.broken = entry.status();
      if (!*entry || (*entry)->lease != lease) continue;  // it went over to another
      if (std::exchange(first, false)) batch.revision = batch.revision.Next();
      TILEKV_RETURN_IF_ERROR(batch.Write(CatalogWrite::Delete(key)));
    }
  }
  return TxnResult{true, batch.revision, std::nullopt};
}

}  // namespace tilekv
