// Counts of what a store holds, kept while it changes. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

class UsageCounter {
 public:
  // A row in place of another; none: there was or is none.
  void Replace(const std::optional<ObjectRow>& old, const std::optional<ObjectRow>& now);
  // Fields of the disk are zero.
  StoreUsage Get();
  void Set(const StoreUsage& usage);
  // How often objects or bytes have changed; states of rows do not count.
  uint64_t changes();
  // Objects and bytes as a walk over all rows has found them; not done where anything changed since
  // `changes`, as the walk then tells nothing.
  bool SetCounted(const StoreUsage& counted, uint64_t changes);

 private:
  Mutex mutex_;
  StoreUsage usage_ ABSL_GUARDED_BY(mutex_);
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// As the index keeps it between writers (docs/formats.md, section 4).
std::string EncodeUsage(const StoreUsage& usage);
absl::StatusOr<StoreUsage> DecodeUsage(std::string_view value);

}  // namespace tilekv
