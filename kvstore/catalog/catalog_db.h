// CatalogDb: the RocksDB below LocalCatalog: layout of its rows, opening, reading. Layout:
// docs/formats.md, "Local catalog". Decides nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/table_files.h"
#include "kvstore/catalog/catalog.h"

namespace rocksdb {
class DB;
class Env;
class Snapshot;
class WriteBatch;
}  // namespace rocksdb

namespace tilekv {

struct CatalogDbOptions {
  std::string directory;  // of the RocksDB itself
  bool create_if_missing = false;
  bool read_only = false;       // beside a writer: a RocksDB secondary
  rocksdb::Env* env = nullptr;  // none: RocksDB's default
  // Of the store whose names these are: written down in a new catalog, compared with that of
  // another one. Empty: neither.
  std::string store_uuid = {};
  // Told in a sentence what an opening left out (rocksdb_open.h).
  std::function<void(const std::string&)> notice = nullptr;
};

struct StoredEntry {
  Revision create;
  Revision mod;
  LeaseId lease = 0;
  std::string value;
};

// Thread-safe.
class CatalogDb {
 public:
  // NOT_FOUND where there is none and none is to be made; STORE_MISMATCH: a later format.
  static absl::StatusOr<std::unique_ptr<CatalogDb>> Open(const CatalogDbOptions& options);
  ~CatalogDb();

  bool read_only() const { return read_only_; }
  // Writer only.
  TableFiles* tables() { return tables_.get(); }
  // A consistent view; a read-only database does not refresh while one is held.
  const rocksdb::Snapshot* Hold();
  void Release(const rocksdb::Snapshot* held);
  // Sees what the writer has written by now; does nothing while a view is held.
  absl::Status Refresh();

  // `held` null: the newest. Unknown before the first transaction: revision 0.
  absl::StatusOr<Revision> ReadRevision(const rocksdb::Snapshot* held);
  absl::StatusOr<std::optional<StoredEntry>> Get(const std::string& key,
                                                 const rocksdb::Snapshot* held);
  absl::StatusOr<CatalogPage> List(const std::string& start, const std::string& end, size_t limit,
                                   const rocksdb::Snapshot* held);
  // Keys that go with leases, of any process.
  absl::StatusOr<std::vector<std::pair<LeaseId, std::string>>> LeasedKeys();

  // The numbers of logs of which an opening, this one or one before, left out an end that may be
  // more than a torn write (rocksdb_open.h), in order.
  absl::StatusOr<std::vector<uint64_t>> DroppedLogs();
  // Removes what was kept of these ends.
  absl::Status ForgetDropped();

  // `old_lease`: of the entry that is there, whose mark is removed.
  static void PutEntry(rocksdb::WriteBatch& batch, const std::string& key, const StoredEntry& entry,
                       LeaseId old_lease);
  static void DeleteEntry(rocksdb::WriteBatch& batch, const std::string& key, LeaseId old_lease);
  static void SetRevision(rocksdb::WriteBatch& batch, Revision revision);
  // Synced. An error is final: the catalog takes no more writes, and whether this one is in the
  // log shows when it is opened again.
  absl::Status Write(rocksdb::WriteBatch& batch);

 private:
  explicit CatalogDb(bool read_only);
  absl::Status CheckFormat(bool may_create, const std::string& store_uuid);
  absl::StatusOr<std::optional<std::string>> Read(const std::string& row,
                                                  const rocksdb::Snapshot* held);

  const bool read_only_;
  std::unique_ptr<rocksdb::Env> view_;  // what a reader of a torn log reads through
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<TableFiles> tables_;  // writer only
  Mutex mutex_;
  int held_views_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tilekv
