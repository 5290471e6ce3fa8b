// For tests: a whole embedded store on a simulated disk. It opens as OpenEmbeddedStore does, loses
// power, opens again. Deterministic for a seed, as long as one thread uses it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/random.h"
#include "kvstore/base/simulated_disk.h"
#include "kvstore/base/simulated_rocksdb_env.h"
#include "kvstore/kv_store.h"
#include "kvstore/object/local_engine.h"

namespace tilekv {

class SimulatedStore {
 public:
  static constexpr char kDirectory[] = "/store";

  explicit SimulatedStore(uint64_t seed) : disk(seed), env(&disk), random_(seed) {}

  // Makes the store where there is none.
  absl::Status Open();
  // As one who only reads: changes nothing, and needs a whole store.
  absl::Status OpenToRead();
  void Close() { store_.reset(); }
  KvStore& operator*() { return *store_; }
  KvStore* operator->() { return store_.get(); }
  bool is_open() const { return store_ != nullptr; }
  // Of the store that is open.
  ObjectStore* objects() { return objects_; }
  // Closes it, too.
  void LosePower(SimulatedDisk::Loss loss);

  SimulatedDisk disk;
  SimulatedRocksDbEnv env;
  ManualClock clock;
  std::optional<uint64_t> max_object_bytes;  // of a store that is made

 private:
  absl::Status OpenAs(bool read_only);

  SeededRandom random_;
  std::unique_ptr<KvStore> store_;
  ObjectStore* objects_ = nullptr;  // its own
};

}  // namespace tilekv
