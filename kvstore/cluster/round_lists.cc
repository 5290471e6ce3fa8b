#include "kvstore/cluster/round_lists.h"

#include <limits>
#include <utility>

#include "kvstore/base/status.h"

namespace tilekv {

RoundLists::RoundLists(const LiveList& live, const std::vector<bool>& wanted,
                       uint32_t partition_bits, uint64_t max_bytes)
    : max_bytes_(max_bytes), live_(live) {
  const uint32_t shift = 64 - partition_bits;
  const uint64_t within = std::numeric_limits<uint64_t>::max() >> partition_bits;
  for (uint64_t partition = 0; partition < wanted.size(); ++partition) {
    if (!wanted[partition]) continue;
    const uint64_t first = partition << shift;
    const bool touches = partition > 0 && wanted[partition - 1];
    if (!touches) ranges_.push_back({.first = first});
    ranges_.back().last = first | within;
  }
}

bool RoundLists::HasRoom(const RoundPart& part) const {
  const uint64_t bytes =
      part.ranges.size() * sizeof(PrefixRange) + part.prefixes.size() * sizeof(uint64_t);
  // For one more of either, and the range that is being filled.
  return bytes + 2 * sizeof(PrefixRange) <= max_bytes_;
}

absl::StatusOr<std::optional<PrefixRange>> RoundLists::Fill(RoundPart& part,
                                                            const PrefixRange& range) {
  PrefixRange covered{.first = range.first, .last = range.last};
  for (uint64_t from = range.first;;) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> prefix, live_.AtLeast(from));
    if (!prefix.has_value() || *prefix > range.last) return covered;
    if (!HasRoom(part)) {
      // Up to this one, which comes first in the next part.
      if (*prefix == range.first) return std::nullopt;
      covered.last = *prefix - 1;
      return covered;
    }
    part.prefixes.push_back(*prefix);
    if (*prefix == range.last) return covered;
    from = *prefix + 1;
  }
}

absl::StatusOr<std::optional<RoundPart>> RoundLists::Next() {
  RoundPart part;
  while (next_ < ranges_.size() && HasRoom(part)) {
    PrefixRange& range = ranges_[next_];
    TILEKV_ASSIGN_OR_RETURN(std::optional<PrefixRange> covered, Fill(part, range));
    if (!covered.has_value()) break;
    part.ranges.push_back(*covered);
    if (covered->last < range.last) {
      range.first = covered->last + 1;
      break;
    }
    ++next_;
  }
  if (part.ranges.empty()) return std::nullopt;
  return part;
}

}  // namespace tilekv
