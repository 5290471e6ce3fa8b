#include "kvstore/wire/object_messages.h"

#include <cstring>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {

void ObjectRefToWire(const ObjectRef& ref, v1::ObjectRef* message) {
  message->set_id(ref.id.bytes.data(), ref.id.bytes.size());
  message->set_level(ref.level);
  message->set_length(ref.length);
}

absl::StatusOr<ObjectRef> ObjectRefFromWire(const v1::ObjectRef& message) {
  ObjectRef ref;
  if (message.id().size() != ref.id.bytes.size()) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("an object id has 32 bytes, not {}", message.id().size()));
  }
  if (message.level() > kMaxLevel) {
    return MakeError(Reason::kInvalidArgument, fmt::format("an object's level is 0 to {}, not {}",
                                                           kMaxLevel, message.level()));
  }
  std::memcpy(ref.id.bytes.data(), message.id().data(), ref.id.bytes.size());
  ref.level = static_cast<uint8_t>(message.level());
  ref.length = message.length();
  return ref;
}

void EncodingToWire(const Encoding& encoding, v1::Encoding* message) {
  message->set_kind(static_cast<uint32_t>(encoding.kind));
  message->set_width(encoding.width);
}

absl::StatusOr<Encoding> EncodingFromWire(const v1::Encoding& message) {
  if (message.kind() > static_cast<uint32_t>(EncodingKind::kPlanes) || message.width() > 255) {
    return MakeError(Reason::kInvalidArgument, fmt::format("there is no encoding {} of width {}",
                                                           message.kind(), message.width()));
  }
  return Encoding{static_cast<EncodingKind>(message.kind()), static_cast<uint8_t>(message.width())};
}

std::string LeavesToWire(std::span<const LeafHash> leaves) {
  std::string text;
  text.reserve(leaves.size() * sizeof(LeafHash));
  for (const LeafHash& leaf : leaves) text.append(AsText(leaf));
  return text;
}

absl::StatusOr<LeafTable> LeavesFromWire(std::string_view text, uint64_t content_length) {
  if (text.size() / sizeof(LeafHash) != LeafCount(content_length) ||
      text.size() % sizeof(LeafHash) != 0) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("a leaf table of {} bytes does not fit content of {} bytes",
                                 text.size(), content_length));
  }
  LeafTable leaves(LeafCount(content_length));
  if (!leaves.empty()) std::memcpy(leaves.data(), text.data(), text.size());
  return leaves;
}

}  // namespace tilekv
