// Object references, encodings and leaf tables between their types and their messages. Pure
// functions, thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_id.h"
#include "tilekv/v1/types.pb.h"

namespace tilekv {

void ObjectRefToWire(const ObjectRef& ref, v1::ObjectRef* message);
// INVALID_ARGUMENT for an id that is not 32 bytes or a level that there is not.
absl::StatusOr<ObjectRef> ObjectRefFromWire(const v1::ObjectRef& message);

void EncodingToWire(const Encoding& encoding, v1::Encoding* message);
// INVALID_ARGUMENT for numbers that no encoding has; whether this build can decode it is another
// question.
absl::StatusOr<Encoding> EncodingFromWire(const v1::Encoding& message);

std::string LeavesToWire(std::span<const LeafHash> leaves);
// INVALID_ARGUMENT when the text is not exactly as long as the table of `content_length` bytes.
absl::StatusOr<LeafTable> LeavesFromWire(std::string_view text, uint64_t content_length);

}  // namespace tilekv
