// What damage in a RocksDB log means. A loss of power may leave the last write torn: its size is
// there and its bytes are not. It was never acknowledged, and a store whose log ends so opens with
// all the rest; but RocksDB, told to lose nothing quietly, calls it corrupt like any other damage.
//
// Every write of ours is one record, synced before the next begins. So damage behind which no
// record begins is in the last one; what lies before a record that is whole was synced, and damage
// there is loss of data.
#pragma once

#include <functional>
#include <string>

#include "kvstore/base/bytes.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"

namespace tilekv {

enum class LogDamage { kNone, kInLastRecord, kBeforeARecord };

// Of a whole log file. Pure.
LogDamage FindLogDamage(Bytes log);

// Opens the database at `path` for writing by `open`, which gets the options to do it with:
// `options`, whose mode of recovery takes damage for an error, or, where that fails and the damage
// is a torn last record, a mode that leaves this record out. A torn last record of the manifest is
// cut off.
rocksdb::Status OpenRocksDbAfterLoss(
    const rocksdb::Options& options, const std::string& path,
    const std::function<rocksdb::Status(const rocksdb::Options&)>& open);

}  // namespace tilekv
