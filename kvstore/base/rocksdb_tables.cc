#include "kvstore/base/rocksdb_tables.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table.h>

#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/rocksdb_null_logger.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

class RocksDbTables : public TableFiles {
 public:
  explicit RocksDbTables(rocksdb::DB* db) : db_(db) {}

  std::optional<TableFile> After(uint64_t number) override {
    std::vector<rocksdb::LiveFileMetaData> files;
    db_->GetLiveFilesMetaData(&files);
    std::optional<TableFile> next;
    for (const rocksdb::LiveFileMetaData& file : files) {
      if (file.file_number <= number || (next && file.file_number > next->number)) continue;
      next = TableFile{.number = file.file_number,
                       .bytes = file.size,
                       .path = file.directory + "/" + file.relative_filename};
    }
    return next;
  }

  absl::Status Check(const TableFile& file) override {
    rocksdb::Status status = Read(file.path, TakesDirectReads(file.path));
    if (status.ok()) return absl::OkStatus();
    if (db_->GetEnv()->FileExists(file.path).IsNotFound()) {
      return MakeError(Reason::kNotFound, fmt::format("table '{}' is gone", Printable(file.path)));
    }
    return MakeError(status.IsCorruption() ? Reason::kDataLoss : Reason::kInternal,
                     fmt::format("table '{}': {}", Printable(file.path), status.ToString()));
  }

 private:
  // A file system without direct I/O refuses to open the file, with an error that says no more than
  // any other. Nothing is read here, so a disk that fails is not taken for one.
  bool TakesDirectReads(const std::string& path) const {
    rocksdb::EnvOptions how;
    how.use_direct_reads = true;
    std::unique_ptr<rocksdb::RandomAccessFile> file;
    return db_->GetEnv()->NewRandomAccessFile(path, &file, how).ok();
  }

  rocksdb::Status Read(const std::string& path, bool direct) const {
    rocksdb::Options options;
    options.env = db_->GetEnv();
    options.info_log = std::make_shared<RocksDbNullLogger>();
    options.use_direct_reads = direct;
    rocksdb::BlockBasedTableOptions table;
    table.no_block_cache = true;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::SstFileReader reader(options);
    rocksdb::Status status = reader.Open(path);
    if (!status.ok()) return status;
    rocksdb::ReadOptions how;
    how.readahead_size = kMiB;
    return reader.VerifyChecksum(how);
  }

  rocksdb::DB* const db_;
};

}  // namespace

std::unique_ptr<TableFiles> TablesOfRocksDb(rocksdb::DB* db) {
  return std::make_unique<RocksDbTables>(db);
}

}  // namespace tilekv
