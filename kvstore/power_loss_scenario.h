// For tests of what survives a loss of power: the same few acknowledged steps, on the engine alone
// or on the catalog alone, on a simulated disk; what is visible after each of them; and a loss
// anywhere between.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/random.h"
#include "kvstore/base/simulated_disk.h"
#include "kvstore/base/simulated_rocksdb_env.h"

namespace tilekv {

// One life of a store, over any number of losses of power. For one thread.
class PowerLossScenario {
 public:
  explicit PowerLossScenario(uint64_t seed) : disk(seed), env(&disk), random(seed) {}
  virtual ~PowerLossScenario() = default;

  virtual const std::vector<std::string>& steps() const = 0;
  // The step; OK is its acknowledgement. The first makes the store. After a loss a step that was
  // not acknowledged is done again.
  virtual absl::Status Do(size_t step) = 0;
  // Closes what is open, if anything is.
  virtual void Close() = 0;
  // Opens what is there where it is closed, and says all that can be seen, in text. A store that
  // cannot be opened: why.
  virtual std::string State() = 0;

  SimulatedDisk disk;
  SimulatedRocksDbEnv env;
  SeededRandom random;
  ManualClock clock;
};

constexpr char kNoStore[] = "there is no store";

std::unique_ptr<PowerLossScenario> NewEngineScenario(uint64_t seed);
std::unique_ptr<PowerLossScenario> NewCatalogScenario(uint64_t seed);

}  // namespace tilekv
