// Opening a RocksDB after its process was killed or its machine lost its power. Its log and the
// list of its files (the manifest, a log too) may then end in a torn record (rocksdb_log.h), which
// is left out; any other damage is Corruption.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rocksdb/env.h"
#include "rocksdb/options.h"

namespace tilekv {

using OpenRocksDb = std::function<rocksdb::Status(const rocksdb::Options&)>;

// For writing, with the database at `path` locked by the caller, by `open`, which gets the options.
// Their mode of recovery must take damage for an error.
//
// What a process that was killed left in logs and manifest is synced before anything is built on
// it: a later loss of power would take it out of the middle of what is there by then. Then a torn
// record is cut off, durably, where RocksDB calls it corrupt.
rocksdb::Status OpenRocksDbToWrite(const rocksdb::Options& options, const std::string& path,
                                   const OpenRocksDb& open);

// For reading, as a secondary, which changes nothing: a torn record is hidden from it. `view` is
// what the database then reads through, and outlives it; null where nothing is torn.
rocksdb::Status OpenRocksDbToRead(const rocksdb::Options& options, const std::string& path,
                                  const OpenRocksDb& open, std::unique_ptr<rocksdb::Env>& view);

}  // namespace tilekv
