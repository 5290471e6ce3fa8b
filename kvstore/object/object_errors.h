// Texts of errors that every engine gives alike.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

// OBJECT_TOO_LARGE: "object of 324,000,000 bytes (309.0 MiB); this store takes objects up to
// 268,435,456 bytes (256 MiB)".
absl::Status ObjectTooLarge(uint64_t length, uint64_t max_object_bytes);
// The same where only so much is known that the content goes on past the limit.
absl::Status ObjectGrewTooLarge(uint64_t max_object_bytes);
// DATA_LOSS: "object 0123456789ab (8,388,608 bytes): <what>".
absl::Status ObjectDamaged(const ObjectRef& ref, std::string_view what);
// The same where the disk did not give the bytes: nothing says that they are lost.
absl::Status ObjectUnreadable(const ObjectRef& ref, std::string_view what);
bool IsUnreadable(const absl::Status& status);
// NOT_FOUND: "object 0123... is not here".
absl::Status ObjectNotFound(const ObjectId& id);

}  // namespace tilekv
