// How a store's directory is opened.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/file_system.h"
#include "kvstore/base/random.h"

namespace rocksdb {
class Env;
}

namespace tilekv {

struct LocalEngineOptions {
  std::string directory;
  // Makes a store in a missing or empty directory. Never for a read-only opening.
  bool create_if_missing = false;
  // Of a new store kDefaultMaxObjectBytes where none is given. Another value than the store's own
  // is STORE_MISMATCH.
  std::optional<uint64_t> max_object_bytes;
  // Of the cluster whose node's disk it is; empty: of none. Another one than the store's own is
  // STORE_MISMATCH.
  std::string cluster_uuid = {};
  // Written into the lock for whoever finds the directory taken; empty where no server runs.
  std::string server_address;

  // Seams; all outlive the engine.
  FileSystem* file_system = FileSystem::Posix();
  Clock* clock = Clock::System();
  Random* random = Random::System();
  rocksdb::Env* rocksdb_env = nullptr;  // none: RocksDB's default
  // Staging of writes and reads; none: a pool of the engine's own.
  std::shared_ptr<BufferPool> pool;
  // Told in a sentence what an operator should know: O_DIRECT refused, a copy quarantined, a sync
  // failed. From any thread; must not block or call the engine.
  std::function<void(const std::string&)> notice;
};

}  // namespace tilekv
