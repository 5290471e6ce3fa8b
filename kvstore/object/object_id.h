// The name of an immutable object: a hash of its content. Layout and reasons: docs/formats.md,
// "Object ids".
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"

namespace tilekv {

struct ObjectId {
  std::array<uint8_t, 32> bytes{};

  friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
  std::string Hex() const { return HexEncode(bytes); }
  // The first `digits` hexadecimal digits, for people.
  std::string Short(size_t digits = 12) const { return Hex().substr(0, digits); }
  std::string_view view() const { return AsText(bytes); }
  // The 8 bytes that lists of live objects are made of, as a number that sorts as the id does.
  uint64_t Prefix64() const { return LoadBe64(bytes.data()); }

  // From 32 raw bytes or 64 hexadecimal digits; INVALID_ARGUMENT otherwise.
  static absl::StatusOr<ObjectId> FromBytes(std::string_view raw);
  static absl::StatusOr<ObjectId> FromHex(std::string_view hex);
};

// What every reference to an object carries: where it is named, how deep it is and how long its
// content is. Level and length are hashed into the id, so a copy whose header differs is another
// object.
struct ObjectRef {
  ObjectId id;
  uint8_t level = 0;    // 0 blob, 1 to kMaxLevel trees
  uint64_t length = 0;  // bytes of content

  friend auto operator<=>(const ObjectRef&, const ObjectRef&) = default;
};

// Namespaces of content: links, deduplication and collection never cross a domain. Domain 0 is the
// only one today.
using Domain = uint32_t;
inline constexpr Domain kDefaultDomain = 0;

struct ObjectIdHash {
  size_t operator()(const ObjectId& id) const { return LoadLe<size_t>(id.bytes.data()); }
};

}  // namespace tilekv
