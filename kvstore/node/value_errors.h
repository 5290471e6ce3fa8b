// Errors about plain values, in the words that users see everywhere.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace tilekv {

// OBJECT_TOO_LARGE: a value above the limit. Key, size, limit, remedy.
absl::Status ValueTooLargeError(std::string_view key, uint64_t length, uint64_t max_object_bytes);
// The same where only so much is known that it goes on past the limit.
absl::Status ValueGrewTooLargeError(std::string_view key, uint64_t max_object_bytes);
// INVALID_ARGUMENT: a key has 1 to kMaxKeyBytes bytes, none of them NUL.
absl::Status CheckKey(std::string_view key);

}  // namespace tilekv
