// What damage in a RocksDB log means. A loss of power may leave the last write torn: its size is
// there and its bytes are not. It was never acknowledged, and a store whose log ends so opens with
// all the rest; but RocksDB, told to lose nothing quietly, calls it corrupt like any other damage.
//
// Every write of ours is one record, synced before the next begins. So damage behind which no
// record begins is in the last one; what lies before a record that is whole was synced, and damage
// there is loss of data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kvstore/base/bytes.h"

namespace tilekv {

enum class LogDamage { kNone, kInLastRecord, kBeforeARecord };

struct LogState {
  LogDamage damage = LogDamage::kNone;
  uint64_t whole_bytes = 0;  // where the last whole record before the damage ends
};

// Of a whole log file. Pure.
LogState ReadLogState(Bytes log);

// Every record that is whole, in order, also behind damage.
void VisitWholeRecords(Bytes log, const std::function<void(std::string record)>& visit);

}  // namespace tilekv
