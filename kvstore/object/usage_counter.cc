#include "kvstore/object/usage_counter.h"

#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"

namespace tilekv {

void UsageCounter::Replace(const std::optional<ObjectRow>& old,
                           const std::optional<ObjectRow>& now) {
  MutexLock lock(mutex_);
  bool same = old.has_value() && now.has_value() && old->ref == now->ref &&
              old->stored_length == now->stored_length;
  if (!same) ++changes_;
  // Unsigned arithmetic: taking away what was added before never goes below zero in sum.
  auto add = [&](const ObjectRow& row, uint64_t sign) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    usage_.objects += sign;
    usage_.content_bytes += sign * row.ref.length;
    usage_.stored_bytes += sign * row.stored_length;
    if (row.state == RowState::kQuarantined) usage_.quarantined_objects += sign;
  };
  if (old.has_value()) add(*old, ~uint64_t{0});
  if (now.has_value()) add(*now, 1);
}

StoreUsage UsageCounter::Get() {
  MutexLock lock(mutex_);
  return usage_;
}

void UsageCounter::Set(const StoreUsage& usage) {
  MutexLock lock(mutex_);
  usage_ = usage;
}

uint64_t UsageCounter::changes() {
  MutexLock lock(mutex_);
  return changes_;
}

bool UsageCounter::SetCounted(const StoreUsage& counted, uint64_t changes) {
  MutexLock lock(mutex_);
  if (changes_ != changes) return false;
  usage_.objects = counted.objects;
  usage_.content_bytes = counted.content_bytes;
  usage_.stored_bytes = counted.stored_bytes;
  return true;
}

std::string EncodeUsage(const StoreUsage& usage) {
  std::string out;
  AppendLe<uint64_t>(out, usage.objects);
  AppendLe<uint64_t>(out, usage.content_bytes);
  AppendLe<uint64_t>(out, usage.stored_bytes);
  AppendLe<uint64_t>(out, usage.quarantined_objects);
  return out;
}

absl::StatusOr<StoreUsage> DecodeUsage(std::string_view value) {
  ByteReader in(AsBytes(value));
  StoreUsage usage;
  usage.objects = in.Read<uint64_t>();
  usage.content_bytes = in.Read<uint64_t>();
  usage.stored_bytes = in.Read<uint64_t>();
  usage.quarantined_objects = in.Read<uint64_t>();
  if (in.ok() && in.empty()) return usage;
  return MakeError(Reason::kDataLoss, "index: the counts of usage are damaged");
}

}  // namespace tilekv
