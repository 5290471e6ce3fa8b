// For whoever opens a RocksDB: its own log goes nowhere. Off the disk it needs no place, which a
// secondary would otherwise make for it and leave behind when its process is killed.
#pragma once

#include <cstdarg>

#include "rocksdb/env.h"

namespace tilekv {

class RocksDbNullLogger : public rocksdb::Logger {
 public:
  RocksDbNullLogger() : rocksdb::Logger(rocksdb::InfoLogLevel::FATAL_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

}  // namespace tilekv
