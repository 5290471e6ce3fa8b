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

 private:
  Mutex mutex_;
  StoreUsage usage_ ABSL_GUARDED_BY(mutex_);
};

// As the index keeps it between writers (docs/formats.md, section 4).
std::string EncodeUsage(const StoreUsage& usage);
absl::StatusOr<StoreUsage> DecodeUsage(std::string_view value);

}  // namespace tilekv
