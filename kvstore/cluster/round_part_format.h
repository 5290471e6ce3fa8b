// A part of a round's lists as a file has it (docs/formats.md, section 4).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/cluster/round_peer.h"

namespace tilekv {

// The most that a file may have.
inline constexpr uint64_t kMaxRoundFileBytes = 2 * kRoundPartBytes;

// INVALID_ARGUMENT where ranges or prefixes are not in order, or too many.
absl::Status CheckPart(const RoundPart& part);
std::string EncodePart(const RoundPart& part);
// DATA_LOSS where the file is cut short or changed.
absl::StatusOr<RoundPart> DecodePart(std::string_view file);

}  // namespace tilekv
