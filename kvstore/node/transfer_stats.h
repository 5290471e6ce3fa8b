// What reads and writes of objects cost, for reports. Times are only measured where they are asked
// for. Not thread-safe: each thread has its own, and they are added up.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "kvstore/object/read_times.h"

namespace tilekv {

// One exchange of many.
struct SlowestExchange {
  int64_t nanos = 0;
  uint64_t bytes = 0;  // of content
  std::string node;    // "": the disk of this process
  std::string what;    // "tensor 'w', tile 3 of 8", where it is known

  // True: it is the slowest now.
  bool Offer(SlowestExchange other) {
    if (other.nanos <= nanos) return false;
    *this = std::move(other);
    return true;
  }
};

// Added to, never reset.
struct ReadStats {
  bool timed = false;           // the caller's wish: measure what is below the counts
  uint64_t asked_bytes = 0;     // of content, by the caller
  uint64_t received_bytes = 0;  // stored bytes that came from disk or network
  uint64_t retries = 0;
  int64_t retry_nanos = 0;  // waiting before a call was sent again

  uint64_t exchanges = 0;
  ReadTimes times;
  int64_t budget_nanos = 0;  // waiting for memory, or for the consumer of what was read
  SlowestExchange slowest;

  void Add(const ReadStats& more) {
    asked_bytes += more.asked_bytes;
    received_bytes += more.received_bytes;
    retries += more.retries;
    retry_nanos += more.retry_nanos;
    exchanges += more.exchanges;
    times.Add(more.times);
    budget_nanos += more.budget_nanos;
    slowest.Offer(more.slowest);
  }
};

// Of puts of objects. Added to, never reset.
struct PutStats {
  uint64_t sent_bytes = 0;  // stored bytes that went to disk or network
  uint64_t retries = 0;
  int64_t retry_nanos = 0;
  int64_t encode_nanos = 0;
};

// The tries of one call after the first, and the waits before them.
class TryCounter {
 public:
  TryCounter(uint64_t* retries, int64_t* wait_nanos) : retries_(retries), wait_nanos_(wait_nanos) {}
  void Begin() {
    if (failed_nanos_ == 0 || retries_ == nullptr) return;
    ++*retries_;
    *wait_nanos_ += TimedScope::NowNanos() - failed_nanos_;
  }
  void Failed() {
    if (retries_ != nullptr) failed_nanos_ = TimedScope::NowNanos();
  }

 private:
  uint64_t* const retries_;
  int64_t* const wait_nanos_;
  int64_t failed_nanos_ = 0;
};

}  // namespace tilekv
