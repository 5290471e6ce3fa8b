// The index of a store's objects: rows and small contents in RocksDB (docs/formats.md, section 4).
//
// One writer, or any number of secondaries beside it that see what was synced at their last
// Refresh. Thread-safe; who may change a row when is the engine's matter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/object/object_store.h"
#include "kvstore/object/store_health.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Env;
class WriteBatch;
}  // namespace rocksdb

namespace tilekv {

class ObjectIndex {
 public:
  // Changes that become durable together or not at all.
  class Batch {
   public:
    explicit Batch(ObjectIndex& index);
    ~Batch();
    void PutRow(Domain domain, const ObjectRow& row);
    // A new row where none was, or in place of `old`: names of files follow.
    void ReplaceRow(Domain domain, const std::optional<ObjectRow>& old, const ObjectRow& row);
    void DeleteRow(Domain domain, const ObjectRow& row);
    void PutContent(Domain domain, const ObjectId& id, std::string_view value);
    void PutMeta(std::string_view key, std::string_view value);
    void DeleteMeta(std::string_view key);

   private:
    friend class ObjectIndex;
    ObjectIndex& index_;
    const std::unique_ptr<rocksdb::WriteBatch> batch_;
  };

  // Makes an index where there is none and `create` says so. DATA_LOSS where it is damaged.
  static absl::StatusOr<std::unique_ptr<ObjectIndex>> OpenWriter(const std::string& path,
                                                                 bool create, rocksdb::Env* env,
                                                                 StoreHealth* health);
  static absl::StatusOr<std::unique_ptr<ObjectIndex>> OpenReader(const std::string& path,
                                                                 rocksdb::Env* env);
  ~ObjectIndex();

  absl::StatusOr<std::optional<ObjectRow>> Get(Domain domain, const ObjectId& id);
  absl::StatusOr<std::vector<std::optional<ObjectRow>>> GetMany(Domain domain,
                                                                std::span<const ObjectRef> refs);
  // Block table and stored bytes of a small object; none where there is none.
  absl::StatusOr<std::optional<std::string>> GetContent(Domain domain, const ObjectId& id);
  absl::StatusOr<std::optional<std::string>> GetMeta(std::string_view key);
  // Whether a row names the payload file of this number.
  absl::StatusOr<bool> IsNamed(uint64_t number);
  // In order of id, from the first above `after`, until `visit` returns false.
  absl::Status Scan(Domain domain, const std::optional<ObjectId>& after,
                    const std::function<bool(const ObjectRow&)>& visit);
  // The same over all domains.
  absl::Status ScanAll(const std::function<bool(const ObjectRow&)>& visit);
  // About how many there are, of all domains.
  uint64_t EstimateRows();

  // Durable when it returns OK; a failure ends writing (STORE_FAILED). Writer only.
  absl::Status WriteSynced(Batch& batch);
  // The same, but durable with the next synced write.
  absl::Status WriteUnsynced(Batch& batch);
  // Readers only: sees what the writer has synced by now.
  absl::Status Refresh();
  // Writer only.
  TableFiles* tables() { return tables_.get(); }

 private:
  ObjectIndex() = default;
  absl::Status Write(Batch& batch, bool sync);
  absl::StatusOr<std::optional<std::string>> GetValue(rocksdb::ColumnFamilyHandle* family,
                                                      std::string_view key);
  absl::Status ScanRows(std::string_view prefix, std::string_view from,
                        const std::function<bool(const ObjectRow&)>& visit);

  std::unique_ptr<rocksdb::Env> view_;  // what a reader of a torn log reads through
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<TableFiles> tables_;               // writer only
  rocksdb::ColumnFamilyHandle* rows_ = nullptr;      // of db_, until it closes
  rocksdb::ColumnFamilyHandle* contents_ = nullptr;  // the same
  StoreHealth* health_ = nullptr;                    // writer only
  Mutex refresh_mutex_;                              // one catch-up at a time
};

}  // namespace tilekv
