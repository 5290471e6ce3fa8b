// For whoever opens a RocksDB: a write that failed stays failed. On a full disk RocksDB would wait
// for room in a thread of its own and then go on writing, in a database that its owner has given up
// until it is opened again.
#pragma once

#include "rocksdb/listener.h"

namespace tilekv {

class RocksDbFinalErrors : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/, rocksdb::Status /*error*/,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
};

}  // namespace tilekv
