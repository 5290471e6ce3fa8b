// The table files of an open RocksDB.
#pragma once

#include <memory>

#include "kvstore/base/table_files.h"

namespace rocksdb {
class DB;
}

namespace tilekv {

// The database outlives it.
std::unique_ptr<TableFiles> TablesOfRocksDb(rocksdb::DB* db);

}  // namespace tilekv
