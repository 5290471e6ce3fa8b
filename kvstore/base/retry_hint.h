// What the maker of an error knows about trying the same call again. It travels inside the status
// and is gone where a new error is made from its text. Pure functions, thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace tilekv {

struct RetryHint {
  bool in_vain = false;  // it was waited for long enough: the next try would end as this one
  int64_t after_ms = 0;  // the least wait before it; 0: none is asked for
};

absl::Status WithRetryAfter(absl::Status status, int64_t after_ms);
absl::Status WithoutRetry(absl::Status status);
RetryHint GetRetryHint(const absl::Status& status);

}  // namespace tilekv
