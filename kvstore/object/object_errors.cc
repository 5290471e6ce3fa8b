#include "kvstore/object/object_errors.h"

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr char kUnreadableUrl[] = "tilekv.v1/unreadable";

absl::Status TooLarge(std::string_view size, uint64_t limit) {
  return MakeError(Reason::kObjectTooLarge,
                   fmt::format("object of {}; this store takes objects up to {} bytes ({})", size,
                               FormatCount(limit), FormatSizeShort(limit)));
}

}  // namespace

absl::Status ObjectTooLarge(uint64_t length, uint64_t max_object_bytes) {
  return TooLarge(fmt::format("{} bytes ({})", FormatCount(length), FormatSize(length)),
                  max_object_bytes);
}

absl::Status ObjectGrewTooLarge(uint64_t max_object_bytes) {
  return TooLarge(fmt::format("more than {} bytes", FormatCount(max_object_bytes)),
                  max_object_bytes);
}

absl::Status ObjectDamaged(const ObjectRef& ref, std::string_view what) {
  return MakeError(Reason::kDataLoss, fmt::format("object {} ({} bytes): {}", ref.id.Short(),
                                                  FormatCount(ref.length), what));
}

absl::Status ObjectUnreadable(const ObjectRef& ref, std::string_view what) {
  absl::Status status = ObjectDamaged(ref, what);
  status.SetPayload(kUnreadableUrl, absl::Cord());
  return status;
}

bool IsUnreadable(const absl::Status& status) {
  return !status.ok() && status.GetPayload(kUnreadableUrl).has_value();
}

absl::Status ObjectNotFound(const ObjectId& id) {
  return MakeError(Reason::kNotFound, fmt::format("object {} is not here", id.Hex()));
}

}  // namespace tilekv
