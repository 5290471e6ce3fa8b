// Randomness behind a seam: a seed replays a test exactly.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "kvstore/base/mutex.h"

namespace tilekv {

class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;
  // `count` random bytes, for uuids and tokens.
  std::string Bytes(size_t count);
  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }

  // The machine's entropy; lives for ever, thread-safe.
  static Random* System();
};

// Repeats itself for a seed. Thread-safe.
class SeededRandom : public Random {
 public:
  explicit SeededRandom(uint64_t seed) : engine_(seed) {}
  uint64_t Next() override {
    MutexLock lock(mutex_);
    return engine_();
  }

 private:
  Mutex mutex_;
  std::mt19937_64 engine_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
