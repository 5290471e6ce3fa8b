#include "kvstore/object/object_index.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/rocksdb_final_errors.h"
#include "kvstore/base/rocksdb_null_logger.h"
#include "kvstore/base/rocksdb_open.h"
#include "kvstore/base/rocksdb_tables.h"
#include "kvstore/base/status.h"
#include "kvstore/object/index_rows.h"

namespace tilekv {
namespace {

constexpr char kContentFamily[] = "inline";

rocksdb::Slice Slice(std::string_view text) { return {text.data(), text.size()}; }
std::string_view Text(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

absl::Status FromRocks(const rocksdb::Status& status, std::string_view operation) {
  if (status.ok()) return absl::OkStatus();
  Reason reason = status.IsCorruption() ? Reason::kDataLoss
                  : status.IsNoSpace()  ? Reason::kStoreFull
                                        : Reason::kInternal;
  return MakeError(reason, fmt::format("index: {}: {}", operation, status.ToString()));
}

absl::Status OpenError(const rocksdb::Status& status, std::string_view operation) {
  absl::Status error = FromRocks(status, operation);
  if (GetReason(error) != Reason::kDataLoss) return error;
  return MakeError(Reason::kDataLoss,
                   fmt::format("{}; 'tilekv store fsck --rebuild-index' makes the index anew from "
                               "the payload files",
                               std::string(error.message().data(), error.message().size())));
}

rocksdb::Options MakeOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  if (env != nullptr) options.env = env;
  options.info_log = std::make_shared<RocksDbNullLogger>();
  options.listeners.push_back(std::make_shared<RocksDbFinalErrors>());
  options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  // The default stops quietly at the first damaged record and loses every later one. This one
  // refuses to open, but for a last record that is cut short, which was never acknowledged.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.write_buffer_size = 8 * kMiB;
  options.max_write_buffer_number = 2;
  options.db_write_buffer_size = 2 * 8 * kMiB;  // of both families together
  options.max_total_wal_size = 64 * kMiB;
  options.max_background_jobs = 2;
  // Keys are hashes, and contents are coded already where that gains.
  options.compression = rocksdb::kNoCompression;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(16 * kMiB);
  table.cache_index_and_filter_blocks = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// RocksDB writes the batches of several threads in one of them. Its library is not built for the
// thread sanitizer, which therefore takes that for a race: there, batches go one by one.
rocksdb::Status WriteTo(rocksdb::DB& db, rocksdb::WriteBatch* batch, bool sync) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  static Mutex one_at_a_time;
  MutexLock lock(one_at_a_time);
#endif
#endif
  rocksdb::WriteOptions options;
  options.sync = sync;
  return db.Write(options, batch);
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families(const rocksdb::Options& options) {
  return {{rocksdb::kDefaultColumnFamilyName, options}, {kContentFamily, options}};
}

}  // namespace

ObjectIndex::Batch::Batch(ObjectIndex& index)
    : index_(index), batch_(std::make_unique<rocksdb::WriteBatch>()) {}
ObjectIndex::Batch::~Batch() = default;

void ObjectIndex::Batch::PutRow(Domain domain, const ObjectRow& row) {
  batch_->Put(index_.rows_, Slice(RowKey(domain, row.ref.id)), Slice(EncodeRow(row)));
}

void ObjectIndex::Batch::ReplaceRow(Domain domain, const std::optional<ObjectRow>& old,
                                    const ObjectRow& row) {
  if (old.has_value() && old->file_number != 0) {
    batch_->Delete(index_.rows_, Slice(NumberKey(old->file_number)));
  }
  PutRow(domain, row);
  if (row.file_number != 0) {
    batch_->Put(index_.rows_, Slice(NumberKey(row.file_number)),
                Slice(ContentKey(domain, row.ref.id)));
  }
}

void ObjectIndex::Batch::DeleteRow(Domain domain, const ObjectRow& row) {
  batch_->Delete(index_.rows_, Slice(RowKey(domain, row.ref.id)));
  if (row.file_number != 0) {
    batch_->Delete(index_.rows_, Slice(NumberKey(row.file_number)));
  } else {
    batch_->Delete(index_.contents_, Slice(ContentKey(domain, row.ref.id)));
  }
}

void ObjectIndex::Batch::PutContent(Domain domain, const ObjectId& id, std::string_view value) {
  batch_->Put(index_.contents_, Slice(ContentKey(domain, id)), Slice(value));
}

void ObjectIndex::Batch::PutMeta(std::string_view key, std::string_view value) {
  batch_->Put(index_.rows_, Slice(key), Slice(value));
}

void ObjectIndex::Batch::DeleteMeta(std::string_view key) {
  batch_->Delete(index_.rows_, Slice(key));
}

absl::StatusOr<std::unique_ptr<ObjectIndex>> ObjectIndex::OpenWriter(const std::string& path,
                                                                     bool create, rocksdb::Env* env,
                                                                     StoreHealth* health) {
  rocksdb::Options options = MakeOptions(env);
  options.create_if_missing = create;
  // Also where the index is there: RocksDB makes the second family after the index, and whoever
  // made the index may have ended between.
  options.create_missing_column_families = true;
  options.max_open_files = 256;
  std::unique_ptr<ObjectIndex> index(new ObjectIndex);
  index->health_ = health;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  auto open = [&](const rocksdb::Options& how) {
    return rocksdb::DB::Open(how, path, Families(how), &handles, &db);
  };
  std::string dropped;
  rocksdb::Status opened = OpenRocksDbToWrite(options, path, open, dropped);
  if (!dropped.empty()) health->Notice("index: " + dropped);
  TILEKV_RETURN_IF_ERROR(OpenError(opened, "open"));
  index->db_.reset(db);
  index->tables_ = TablesOfRocksDb(db);
  index->rows_ = handles[0];
  index->contents_ = handles[1];
  return index;
}

absl::StatusOr<std::unique_ptr<ObjectIndex>> ObjectIndex::OpenReader(const std::string& path,
                                                                     rocksdb::Env* env) {
  rocksdb::Options options = MakeOptions(env);
  // All files at once: the writer may delete one that is opened only later.
  options.max_open_files = -1;
  std::unique_ptr<ObjectIndex> index(new ObjectIndex);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  // The second path would hold the secondary's own info log; ours goes nowhere, so it is never
  // made.
  auto open = [&](const rocksdb::Options& how) {
    return rocksdb::DB::OpenAsSecondary(how, path, path + ".secondary", Families(how), &handles,
                                        &db);
  };
  TILEKV_RETURN_IF_ERROR(
      FromRocks(OpenRocksDbToRead(options, path, open, index->view_), "open for reading"));
  index->db_.reset(db);
  index->rows_ = handles[0];
  index->contents_ = handles[1];
  return index;
}

ObjectIndex::~ObjectIndex() {
  if (db_ == nullptr) return;
  db_->DestroyColumnFamilyHandle(rows_);
  db_->DestroyColumnFamilyHandle(contents_);
}

absl::StatusOr<std::optional<std::string>> ObjectIndex::GetValue(
    rocksdb::ColumnFamilyHandle* family, std::string_view key) {
  std::string value;
  rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), family, Slice(key), &value);
  if (status.IsNotFound()) return std::nullopt;
  TILEKV_RETURN_IF_ERROR(FromRocks(status, "read"));
  return value;
}

absl::StatusOr<std::optional<ObjectRow>> ObjectIndex::Get(Domain domain, const ObjectId& id) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<std::string> value, GetValue(rows_, RowKey(domain, id)));
  if (!value.has_value()) return std::nullopt;
  TILEKV_ASSIGN_OR_RETURN(ObjectRow row, DecodeRow(id, *value));
  return row;
}

absl::StatusOr<std::vector<std::optional<ObjectRow>>> ObjectIndex::GetMany(
    Domain domain, std::span<const ObjectRef> refs) {
  std::vector<std::string> keys;
  std::vector<rocksdb::Slice> slices;
  keys.reserve(refs.size());
  for (const ObjectRef& ref : refs)
    slices.push_back(Slice(keys.emplace_back(RowKey(domain, ref.id))));
  std::vector<rocksdb::PinnableSlice> values(refs.size());
  std::vector<rocksdb::Status> statuses(refs.size());
  db_->MultiGet(rocksdb::ReadOptions(), rows_, slices.size(), slices.data(), values.data(),
                statuses.data());
  std::vector<std::optional<ObjectRow>> rows(refs.size());
  for (size_t i = 0; i < refs.size(); ++i) {
    if (statuses[i].IsNotFound()) continue;
    TILEKV_RETURN_IF_ERROR(FromRocks(statuses[i], "read"));
    TILEKV_ASSIGN_OR_RETURN(rows[i], DecodeRow(refs[i].id, Text(values[i])));
  }
  return rows;
}

absl::StatusOr<std::optional<std::string>> ObjectIndex::GetContent(Domain domain,
                                                                   const ObjectId& id) {
  return GetValue(contents_, ContentKey(domain, id));
}

absl::StatusOr<std::optional<std::string>> ObjectIndex::GetMeta(std::string_view key) {
  return GetValue(rows_, key);
}

absl::StatusOr<bool> ObjectIndex::IsNamed(uint64_t number) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<std::string> id, GetValue(rows_, NumberKey(number)));
  return id.has_value();
}

absl::Status ObjectIndex::Scan(Domain domain, const std::optional<ObjectId>& after,
                               const std::function<bool(const ObjectRow&)>& visit) {
  std::string prefix = RowKeyPrefix(domain);
  std::string from = prefix;
  if (after.has_value()) from = RowKey(domain, *after) + '\0';
  return ScanRows(prefix, from, visit);
}

absl::Status ObjectIndex::ScanAll(const std::function<bool(const ObjectRow&)>& visit) {
  std::string prefix(1, kRowKeyTag);
  return ScanRows(prefix, prefix, visit);
}

uint64_t ObjectIndex::EstimateRows() {
  uint64_t keys = 0;
  db_->GetIntProperty(rows_, rocksdb::DB::Properties::kEstimateNumKeys, &keys);
  return keys;
}

absl::Status ObjectIndex::ScanRows(std::string_view prefix, std::string_view from,
                                   const std::function<bool(const ObjectRow&)>& visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, rows_));
  for (it->Seek(Slice(from)); it->Valid() && it->key().starts_with(Slice(prefix)); it->Next()) {
    std::string_view key = Text(it->key());
    constexpr size_t kIdBytes = sizeof(ObjectId::bytes);
    if (key.size() < kIdBytes) return MakeError(Reason::kDataLoss, "index: a key is damaged");
    TILEKV_ASSIGN_OR_RETURN(ObjectId id, ObjectId::FromBytes(key.substr(key.size() - kIdBytes)));
    TILEKV_ASSIGN_OR_RETURN(ObjectRow row, DecodeRow(id, Text(it->value())));
    if (!visit(row)) return absl::OkStatus();
  }
  return FromRocks(it->status(), "scan");
}

absl::Status ObjectIndex::WriteSynced(Batch& batch) { return Write(batch, /*sync=*/true); }

absl::Status ObjectIndex::WriteUnsynced(Batch& batch) { return Write(batch, /*sync=*/false); }

absl::Status ObjectIndex::Write(Batch& batch, bool sync) {
  TILEKV_RETURN_IF_ERROR(health_->CheckWritable());
  absl::Status status = FromRocks(WriteTo(*db_, batch.batch_.get(), sync), "write");
  // What RocksDB has of a failed write is not known, and it takes no more.
  return status.ok() ? status : health_->Fail(status);
}

absl::Status ObjectIndex::Refresh() {
  MutexLock lock(refresh_mutex_);
  return FromRocks(db_->TryCatchUpWithPrimary(), "catch up");
}

}  // namespace tilekv
