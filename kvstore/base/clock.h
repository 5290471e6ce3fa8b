// Time behind a seam: tests decide it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tilekv {

class Clock {
 public:
  virtual ~Clock() = default;
  // Wall clock, microseconds since 1970. May jump; decides only when something may be tried, never
  // what is safe.
  virtual int64_t WallMicros() = 0;
  // Nanoseconds since some start; never goes back.
  virtual int64_t MonotonicNanos() = 0;

  // The machine's clock; lives for ever.
  static Clock* System();
};

// A clock that stands still until it is told. Thread-safe.
class ManualClock : public Clock {
 public:
  explicit ManualClock(int64_t wall_micros = 1'700'000'000'000'000) : wall_micros_(wall_micros) {}
  int64_t WallMicros() override { return wall_micros_; }
  int64_t MonotonicNanos() override { return nanos_; }
  void Advance(int64_t micros) {
    wall_micros_ += micros;
    nanos_ += micros * 1000;
  }

 private:
  std::atomic<int64_t> wall_micros_;
  std::atomic<int64_t> nanos_{0};
};

}  // namespace tilekv
