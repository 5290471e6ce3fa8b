#include "kvstore/catalog/catalog_db.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/rocksdb_final_errors.h"
#include "kvstore/base/rocksdb_null_logger.h"
#include "kvstore/base/rocksdb_open.h"
#include "kvstore/base/rocksdb_tables.h"
#include "kvstore/base/status.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"

namespace tilekv {
namespace {

constexpr char kEntryRow = 'd';
constexpr char kLeaseRow = 'l';
constexpr char kRevisionRow[] = "r";
constexpr char kFormatRow[] = "f";
constexpr char kStoreRow[] = "s";
constexpr uint16_t kFormatVersion = 1;
constexpr size_t kEntryHeaderBytes = 24;

absl::Status FromRocks(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return absl::OkStatus();
  Reason reason = status.IsCorruption() ? Reason::kDataLoss : Reason::kStoreFailed;
  return MakeError(reason, fmt::format("catalog: {}: {}", what, status.ToString()));
}

absl::Status OpenError(const rocksdb::Status& status, const std::string& directory) {
  absl::Status error = FromRocks(status, fmt::format("opening '{}'", Printable(directory)));
  if (!status.IsCorruption()) return error;
  return WithContext(error,
                     "names cannot be read and nothing was changed; take a copy of the "
                     "store's directory, then bring 'catalog' back from a backup");
}

std::string EntryRow(std::string_view key) {
  std::string row(1, kEntryRow);
  row.append(key);
  return row;
}

std::string LeaseRow(LeaseId lease, std::string_view key) {
  std::string row(1, kLeaseRow);
  AppendBe64(row, lease);
  row.append(key);
  return row;
}

std::string EncodeEntry(const StoredEntry& entry) {
  std::string out;
  AppendLe<uint64_t>(out, entry.create.value);
  AppendLe<uint64_t>(out, entry.mod.value);
  AppendLe<uint64_t>(out, entry.lease);
  out.append(entry.value);
  return out;
}

absl::StatusOr<StoredEntry> DecodeEntry(std::string_view key, std::string_view stored) {
  if (stored.size() < kEntryHeaderBytes) {
    return MakeError(Reason::kDataLoss,
                     fmt::format("catalog: the record of '{}' is cut short", Printable(key)));
  }
  ByteReader reader(AsBytes(stored));
  StoredEntry entry;
  entry.create = {reader.Read<uint64_t>()};
  entry.mod = {reader.Read<uint64_t>()};
  entry.lease = reader.Read<uint64_t>();
  entry.value = AsText(reader.rest());
  return entry;
}

rocksdb::Options DbOptions(const CatalogDbOptions& options) {
  rocksdb::Options db;
  if (options.env != nullptr) db.env = options.env;
  db.create_if_missing = options.create_if_missing;
  // The default loses acknowledged records without a word when the log is damaged in its middle.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  db.write_buffer_size = 8 * kMiB;
  db.max_write_buffer_number = 2;
  // A secondary must keep open what the writer may delete.
  db.max_open_files = options.read_only ? -1 : 64;
  db.compression = rocksdb::kNoCompression;
  db.info_log = std::make_shared<RocksDbNullLogger>();
  db.listeners.push_back(std::make_shared<RocksDbFinalErrors>());
  db.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(8 * kMiB);
  table.cache_index_and_filter_blocks = true;
  db.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return db;
}

// RocksDB makes the directory and does not sync its entry. Also where it was there: whoever made it
// may have ended before the sync.
absl::Status SyncEntryOf(rocksdb::Env& env, const std::string& directory) {
  size_t slash = directory.rfind('/');
  std::unique_ptr<rocksdb::Directory> parent;
  rocksdb::Status status =
      env.NewDirectory(slash == std::string::npos ? "." : directory.substr(0, slash + 1), &parent);
  if (status.ok()) status = parent->Fsync();
  return FromRocks(status, "syncing the entry of its directory");
}

}  // namespace

absl::StatusOr<std::unique_ptr<CatalogDb>> CatalogDb::Open(const CatalogDbOptions& options) {
  rocksdb::Options db_options = DbOptions(options);
  std::string current = options.directory + "/CURRENT";
  bool exists = db_options.env->FileExists(current).ok();
  if (!exists && (options.read_only || !options.create_if_missing)) {
    return MakeError(Reason::kNotFound,
                     fmt::format("no catalog in '{}'", Printable(options.directory)));
  }
  auto opened = std::unique_ptr<CatalogDb>(new CatalogDb(options.read_only));
  rocksdb::DB* db = nullptr;
  // The second path would hold the secondary's own log; ours goes nowhere, so it is never made.
  rocksdb::Status status;
  if (options.read_only) {
    auto open = [&](const rocksdb::Options& how) {
      return rocksdb::DB::OpenAsSecondary(how, options.directory, options.directory + ".secondary",
                                          &db);
    };
    status = OpenRocksDbToRead(db_options, options.directory, open, opened->view_);
  } else {
    auto open = [&](const rocksdb::Options& how) {
      return rocksdb::DB::Open(how, options.directory, &db);
    };
    std::string dropped;
    status = OpenRocksDbToWrite(db_options, options.directory, open, dropped);
    if (!dropped.empty() && options.notice != nullptr) options.notice("catalog: " + dropped);
  }
  opened->db_.reset(db);
  TILEKV_RETURN_IF_ERROR(OpenError(status, options.directory));
  if (!options.read_only) {
    TILEKV_RETURN_IF_ERROR(SyncEntryOf(*db_options.env, options.directory));
    opened->tables_ = TablesOfRocksDb(db);
  }
  TILEKV_RETURN_IF_ERROR(opened->CheckFormat(!options.read_only, options.store_uuid));
  return opened;
}

CatalogDb::CatalogDb(bool read_only) : read_only_(read_only) {}
CatalogDb::~CatalogDb() = default;

absl::Status CatalogDb::CheckFormat(bool may_create, const std::string& store_uuid) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<std::string> stored, Read(kFormatRow, nullptr));
  if (!stored && may_create) {
    TILEKV_ASSIGN_OR_RETURN(Revision revision, ReadRevision(nullptr));
    if (revision.value != 0) {
      return MakeError(Reason::kDataLoss, "catalog: the record of its format is gone");
    }
    std::string version;
    AppendLe<uint16_t>(version, kFormatVersion);
    rocksdb::WriteBatch batch;
    batch.Put(kFormatRow, version);
    if (!store_uuid.empty()) batch.Put(kStoreRow, store_uuid);
    return Write(batch);
  }
  if (!stored || stored->size() != sizeof(uint16_t)) {
    return MakeError(Reason::kDataLoss, "catalog: the record of its format is gone or damaged");
  }
  uint16_t version = LoadLe<uint16_t>(AsBytes(*stored).data());
  if (version != kFormatVersion) {
    return MakeError(Reason::kStoreMismatch,
                     fmt::format("the catalog has format {}; this program reads format {}", version,
                                 kFormatVersion));
  }
  TILEKV_ASSIGN_OR_RETURN(std::optional<std::string> store, Read(kStoreRow, nullptr));
  if (!store.has_value() || store_uuid.empty() || *store == store_uuid) return absl::OkStatus();
  return MakeError(
      Reason::kStoreMismatch,
      fmt::format("the catalog belongs to store {}, and the objects beside it to store "
                  "{}: two stores were mixed. Restore the directory 'catalog' that "
                  "belongs here",
                  Printable(*store), store_uuid));
}

const rocksdb::Snapshot* CatalogDb::Hold() {
  MutexLock lock(mutex_);
  ++held_views_;
  // A secondary stands still between refreshes: that is its snapshot.
  return read_only_ ? nullptr : db_->GetSnapshot();
}

void CatalogDb::Release(const rocksdb::Snapshot* held) {
  MutexLock lock(mutex_);
  --held_views_;
  if (held != nullptr) db_->ReleaseSnapshot(held);
}

absl::Status CatalogDb::Refresh() {
  MutexLock lock(mutex_);
  if (!read_only_ || held_views_ > 0) return absl::OkStatus();
  return FromRocks(db_->TryCatchUpWithPrimary(), "refreshing");
}

absl::StatusOr<std::optional<std::string>> CatalogDb::Read(const std::string& row,
                                                           const rocksdb::Snapshot* held) {
  rocksdb::ReadOptions read;
  read.snapshot = held;
  std::string value;
  rocksdb::Status status = db_->Get(read, row, &value);
  if (status.IsNotFound()) return std::nullopt;
  TILEKV_RETURN_IF_ERROR(FromRocks(status, "reading"));
  return value;
}

absl::StatusOr<Revision> CatalogDb::ReadRevision(const rocksdb::Snapshot* held) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<std::string> stored, Read(kRevisionRow, held));
  if (!stored) return Revision{};
  if (stored->size() != sizeof(uint64_t)) {
    return MakeError(Reason::kDataLoss, "catalog: the record of its revision is damaged");
  }
  return Revision{LoadLe<uint64_t>(AsBytes(*stored).data())};
}

absl::StatusOr<std::optional<StoredEntry>> CatalogDb::Get(const std::string& key,
                                                          const rocksdb::Snapshot* held) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<std::string> stored, Read(EntryRow(key), held));
  if (!stored) return std::nullopt;
  TILEKV_ASSIGN_OR_RETURN(StoredEntry entry, DecodeEntry(key, *stored));
  return entry;
}

absl::StatusOr<CatalogPage> CatalogDb::List(const std::string& start, const std::string& end,
                                            size_t limit, const rocksdb::Snapshot* held) {
  CatalogPage page;
  TILEKV_ASSIGN_OR_RETURN(page.revision, ReadRevision(held));
  std::string upper = EntryRow(end);
  rocksdb::Slice upper_slice(upper);
  rocksdb::ReadOptions read;
  read.snapshot = held;
  read.iterate_upper_bound = &upper_slice;
  std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(read));
  for (at->Seek(EntryRow(start)); at->Valid(); at->Next()) {
    if (page.entries.size() == limit) {
      page.more = true;
      break;
    }
    std::string key = at->key().ToString().substr(1);
    TILEKV_ASSIGN_OR_RETURN(
        StoredEntry entry,
        DecodeEntry(key, std::string_view(at->value().data(), at->value().size())));
    page.entries.push_back({std::move(key), std::move(entry.value), entry.create, entry.mod});
  }
  TILEKV_RETURN_IF_ERROR(FromRocks(at->status(), "listing"));
  return page;
}

absl::StatusOr<std::vector<std::pair<LeaseId, std::string>>> CatalogDb::LeasedKeys() {
  std::vector<std::pair<LeaseId, std::string>> keys;
  std::string upper(1, kLeaseRow + 1);
  rocksdb::Slice upper_slice(upper);
  rocksdb::ReadOptions read;
  read.iterate_upper_bound = &upper_slice;
  std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(read));
  for (at->Seek(std::string(1, kLeaseRow)); at->Valid(); at->Next()) {
    std::string row = at->key().ToString();
    if (row.size() < 1 + sizeof(LeaseId)) continue;
    keys.emplace_back(LoadBe64(AsBytes(row).data() + 1), row.substr(1 + sizeof(LeaseId)));
  }
  TILEKV_RETURN_IF_ERROR(FromRocks(at->status(), "reading leases"));
  return keys;
}

absl::StatusOr<std::vector<uint64_t>> CatalogDb::DroppedLogs() {
  constexpr std::string_view kPrefix = kDroppedPrefix;
  std::vector<std::string> names;
  TILEKV_RETURN_IF_ERROR(
      FromRocks(db_->GetEnv()->GetChildren(db_->GetName(), &names), "listing its directory"));
  std::vector<uint64_t> logs;
  for (const std::string& name : names) {
    if (name.rfind(kPrefix, 0) != 0) continue;
    uint64_t log = 0;
    const char* name_end = name.data() + name.size();
    auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name_end, log);
    if (error == std::errc() && end == name_end) logs.push_back(log);
  }
  std::sort(logs.begin(), logs.end());
  return logs;
}

absl::Status CatalogDb::ForgetDropped() {
  TILEKV_ASSIGN_OR_RETURN(std::vector<uint64_t> logs, DroppedLogs());
  // Not synced: what comes back is in doubt once more, and no more than that.
  for (uint64_t log : logs) {
    std::string path = fmt::format("{}/{}{}", db_->GetName(), kDroppedPrefix, log);
    TILEKV_RETURN_IF_ERROR(
        FromRocks(db_->GetEnv()->DeleteFile(path), "removing what an opening left out"));
  }
  return absl::OkStatus();
}

void CatalogDb::PutEntry(rocksdb::WriteBatch& batch, const std::string& key,
                         const StoredEntry& entry, LeaseId old_lease) {
  if (old_lease != 0 && old_lease != entry.lease) batch.Delete(LeaseRow(old_lease, key));
  batch.Put(EntryRow(key), EncodeEntry(entry));
  if (entry.lease != 0) batch.Put(LeaseRow(entry.lease, key), "");
}

void CatalogDb::DeleteEntry(rocksdb::WriteBatch& batch, const std::string& key, LeaseId old_lease) {
  if (old_lease != 0) batch.Delete(LeaseRow(old_lease, key));
  batch.Delete(EntryRow(key));
}

void CatalogDb::SetRevision(rocksdb::WriteBatch& batch, Revision revision) {
  std::string value;
  AppendLe<uint64_t>(value, revision.value);
  batch.Put(kRevisionRow, value);
}

absl::Status CatalogDb::Write(rocksdb::WriteBatch& batch) {
  rocksdb::WriteOptions write;
  write.sync = true;
  return FromRocks(db_->Write(write, &batch), "writing");
}

}  // namespace tilekv
