// A progress bar with rate and time left, on standard error.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "client/cli/terminal.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

// "import  [########----]  66%  1.2 GiB of 1.8 GiB  310.0 MiB/s  2 s left". total 0: unknown, then
// no bar.
std::string FormatProgress(const std::string& what, uint64_t done_bytes, uint64_t total_bytes,
                           double seconds, int width, bool utf8);
// "3 s", "2 min 05 s", "1 h 02 min".
std::string FormatDuration(double seconds);

// Silent unless `enabled`. Redrawn at most ten times a second; the line is removed at the end, so
// that what is printed afterwards stands alone. Thread-safe.
class Progress {
 public:
  Progress(std::string what, bool enabled, const Terminal& terminal, std::FILE* file, Clock* clock);
  ~Progress() { Finish(); }
  void Update(uint64_t done_bytes, uint64_t total_bytes);
  void Finish();
  double seconds() const;

 private:
  static constexpr int64_t kRedrawNanos = 100'000'000;

  const std::string what_;
  const bool enabled_;
  const Terminal terminal_;
  std::FILE* const file_;
  Clock* const clock_;
  const int64_t start_nanos_;
  Mutex mutex_;
  int64_t drawn_nanos_ ABSL_GUARDED_BY(mutex_) = 0;
  bool drawn_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tilekv
