// What damage in a RocksDB log means. A loss of power may leave the last write torn: cut short, or
// its size is there and bytes of it are not. It was never acknowledged, and a store whose log ends
// so opens with all the rest; but RocksDB, told to lose nothing quietly, calls it corrupt like any
// other damage, or, cut short, passes over it without a word.
//
// Every write of ours is one record, synced before the next begins. So:
// 1. What lies before a record that is whole was synced, and damage there is loss of data.
// 2. Damage behind which no record begins is in the last one. It is torn where bytes are missing:
//    the file ends within it, its end is zeros, or a whole page of it is. A turned bit leaves its
//    bytes there, and is loss of data, in the length of a record too, which then seems cut short.
//    Where the checksum tells of one bit that no missing byte explains, it is that; and where it
//    holds for all the bytes up to the end of the file, only the length is damaged.
// 3. Zeros at the end tell a torn record only where they begin with a sector of the disk, or with
//    the record, of which nothing is there then, and are more than a few. Others are in doubt:
//    numbers and contents end so, and more than one bit may have turned in a whole record.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kvstore/base/bytes.h"

namespace tilekv {

enum class LogDamage { kNone, kTornEnd, kDamaged };

struct LogState {
  LogDamage damage = LogDamage::kNone;
  uint64_t whole_bytes = 0;  // where the last whole record before the damage ends
  bool in_doubt = false;     // of a torn end: it may be damage
  // Of damage in the last record: a bit that turned in this byte explains all of it.
  std::optional<uint64_t> turned_byte = std::nullopt;
};

// Of a whole log file. Pure.
LogState ReadLogState(Bytes log);

// Every record that is whole, in order, also behind damage.
void VisitWholeRecords(Bytes log, const std::function<void(std::string record)>& visit);

}  // namespace tilekv
