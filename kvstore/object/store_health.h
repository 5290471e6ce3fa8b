// Whether a store still takes writes. A failed sync is final: what the kernel dropped is not known,
// so nothing after it may be acknowledged, and it is never tried again. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "kvstore/base/mutex.h"

namespace tilekv {

class StoreHealth {
 public:
  explicit StoreHealth(std::function<void(const std::string&)> notice);

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // OK, or STORE_FAILED with the first cause.
  absl::Status CheckWritable();
  // What a directory's sync gave: as it is where it was OK or could not begin (OVERLOADED); any
  // other failure ends writing.
  absl::Status AfterDirectorySync(const absl::Status& synced);
  // Ends writing. Returns the error that the caller's caller gets.
  absl::Status Fail(const absl::Status& cause);
  // Tells whoever listens.
  void Notice(const std::string& text) const;

 private:
  const std::function<void(const std::string&)> notice_;
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
