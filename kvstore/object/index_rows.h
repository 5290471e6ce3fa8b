// Keys and values of the index as bytes (docs/formats.md, section 4). Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

inline constexpr char kRowKeyTag = 'o';
inline constexpr std::string_view kNumbersKey = "mnumbers";
inline constexpr std::string_view kUsageKey = "musage";
// There while rows may have kUnsettledRevision.
inline constexpr std::string_view kUnsettledKey = "munsettled";

// touched_rev of rows that were made anew while there was no catalog: above every revision.
inline constexpr Revision kUnsettledRevision{std::numeric_limits<uint64_t>::max()};

// "o" domain id. Rows of a domain are in order of id.
std::string RowKey(Domain domain, const ObjectId& id);
// What all row keys of a domain begin with; the 32 bytes of the id follow.
std::string RowKeyPrefix(Domain domain);
// "n" number.
std::string NumberKey(uint64_t number);
// domain id: key of a small content, and value of a number.
std::string ContentKey(Domain domain, const ObjectId& id);

std::string EncodeRow(const ObjectRow& row);
// DATA_LOSS for a value that is no row; `id` is from the key.
absl::StatusOr<ObjectRow> DecodeRow(const ObjectId& id, std::string_view value);

}  // namespace tilekv
