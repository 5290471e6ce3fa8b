#include "kvstore/base/clock.h"

#include <chrono>

namespace tilekv {
namespace {

class SystemClock : public Clock {
 public:
  int64_t WallMicros() override {
    auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  }
  int64_t MonotonicNanos() override {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }
};

}  // namespace

Clock* Clock::System() {
  static SystemClock* clock = new SystemClock;
  return clock;
}

}  // namespace tilekv
