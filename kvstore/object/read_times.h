// Where the time of reads goes, for reports to people. Measured only for who asks; a branch
// otherwise. Times of several threads are added up.
#pragma once

#include <cstdint>

#include "kvstore/base/clock.h"

namespace tilekv {

struct ReadTimes {
  int64_t fetch_nanos = 0;   // waiting for the disk, or for a node to send
  int64_t verify_nanos = 0;  // hashing content
  int64_t decode_nanos = 0;
  int64_t place_nanos = 0;  // copying content to where it goes

  void Add(const ReadTimes& more) {
    fetch_nanos += more.fetch_nanos;
    verify_nanos += more.verify_nanos;
    decode_nanos += more.decode_nanos;
    place_nanos += more.place_nanos;
  }
};

// Adds the time for which it lives to a sum, unless that is null.
class TimedScope {
 public:
  explicit TimedScope(int64_t* sum_nanos)
      : sum_nanos_(sum_nanos), began_nanos_(sum_nanos == nullptr ? 0 : NowNanos()) {}
  TimedScope(ReadTimes* times, int64_t ReadTimes::*part)
      : TimedScope(times == nullptr ? nullptr : &(times->*part)) {}
  ~TimedScope() {
    if (sum_nanos_ != nullptr) *sum_nanos_ += NowNanos() - began_nanos_;
  }
  TimedScope(const TimedScope&) = delete;
  TimedScope& operator=(const TimedScope&) = delete;

  static int64_t NowNanos() { return Clock::System()->MonotonicNanos(); }

 private:
  int64_t* const sum_nanos_;
  const int64_t began_nanos_;
};

// The time of a step that is taken too often for a clock: estimated from the few that are timed.
class SampledTime {
 public:
  // The next step is timed.
  void SampleNext() { due_ = true; }
  template <typename Step>
  auto Run(uint64_t bytes, const Step& step) {
    bytes_ += bytes;
    if (!due_) return step();
    due_ = false;
    sampled_bytes_ += bytes;
    TimedScope timed(&sampled_nanos_);
    return step();
  }
  int64_t Nanos() const {
    if (sampled_bytes_ == 0) return 0;
    return static_cast<int64_t>(static_cast<double>(sampled_nanos_) * static_cast<double>(bytes_) /
                                static_cast<double>(sampled_bytes_));
  }

 private:
  bool due_ = false;
  uint64_t bytes_ = 0;
  uint64_t sampled_bytes_ = 0;
  int64_t sampled_nanos_ = 0;
};

}  // namespace tilekv
