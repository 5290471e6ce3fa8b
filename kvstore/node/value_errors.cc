#include "kvstore/node/value_errors.h"

#include <string>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

absl::Status TooLarge(std::string_view key, std::string_view size, uint64_t max_object_bytes) {
  return MakeError(
      Reason::kObjectTooLarge,
      fmt::format(
          "key '{}' is {}; this store takes objects up to {} bytes ({}). Store a matrix with "
          "'tilekv model import NAME FILE', any other file with 'tilekv kv put --chunked'.",
          Printable(key), size, FormatCount(max_object_bytes), FormatSizeShort(max_object_bytes)));
}

}  // namespace

absl::Status ValueTooLargeError(std::string_view key, uint64_t length, uint64_t max_object_bytes) {
  return TooLarge(key, fmt::format("{} bytes ({})", FormatCount(length), FormatSize(length)),
                  max_object_bytes);
}

absl::Status ValueGrewTooLargeError(std::string_view key, uint64_t max_object_bytes) {
  return TooLarge(key,
                  fmt::format("more than {} bytes ({})", FormatCount(max_object_bytes),
                              FormatSizeShort(max_object_bytes)),
                  max_object_bytes);
}

absl::Status CheckKey(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("a key has 1 to {} bytes; this one has {}",
                                 FormatCount(kMaxKeyBytes), FormatCount(key.size())));
  }
  if (key.find('\0') != std::string_view::npos) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("key '{}' has a NUL byte; any other may be in a key", Printable(key)));
  }
  return absl::OkStatus();
}

}  // namespace tilekv
