// Opening a RocksDB after its process was killed or its machine lost its power. Its newest log and
// the list of its files (the manifest, a log too) may then end in a torn record (rocksdb_log.h),
// which is left out; any other damage is Corruption, a bit that turned in the last record too.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rocksdb/env.h"
#include "rocksdb/options.h"

namespace tilekv {

using OpenRocksDb = std::function<rocksdb::Status(const rocksdb::Options&)>;

// What an opening leaves out that may be damage and no torn record is kept beside the database, in
// a file whose name begins so. It is nobody's but the owner's, who then knows that something may be
// missing.
inline constexpr char kDroppedPrefix[] = "DROPPED-";

// For writing, with the database at `path` locked by the caller, by `open`, which gets the options.
// Their mode of recovery must take damage for an error.
//
// What a process that was killed left in logs and manifest is synced before anything is built on
// it: a later loss of power would take it out of the middle of what is there by then. Then a torn
// record is cut off, durably; `dropped` then says so, in a sentence.
//
// An opening turns the logs into tables. On a disk that is nearly full they are left as they are:
// then it takes some KiB.
rocksdb::Status OpenRocksDbToWrite(const rocksdb::Options& options, const std::string& path,
                                   const OpenRocksDb& open, std::string& dropped);

// For reading, as a secondary, which changes nothing: a torn record is hidden from it. `view` is
// what the database then reads through, and outlives it; null where nothing is torn.
rocksdb::Status OpenRocksDbToRead(const rocksdb::Options& options, const std::string& path,
                                  const OpenRocksDb& open, std::unique_ptr<rocksdb::Env>& view);

}  // namespace tilekv
