// The lists of a round for one node, in parts (round_peer.h), out of the list of everything that is
// in use.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/cluster/round_peer.h"
#include "kvstore/node/live_list.h"

namespace tilekv {

// One pass over the parts, in order. What it makes follows from the list and the partitions alone.
// Not thread-safe.
class RoundLists {
 public:
  // `wanted`: of a bit for each of the 2^partition_bits partitions, those that the node gets. The
  // list is finished and outlives this. `max_bytes`: of ranges and prefixes in a part; at least 64.
  RoundLists(const LiveList& live, const std::vector<bool>& wanted, uint32_t partition_bits,
             uint64_t max_bytes);

  // The next part: its ranges and prefixes. None: there are no more.
  absl::StatusOr<std::optional<RoundPart>> Next();

 private:
  // Adds prefixes of the range from `first` on as long as there is room. What it covers by then;
  // none: there was no room.
  absl::StatusOr<std::optional<PrefixRange>> Fill(RoundPart& part, const PrefixRange& range);
  bool HasRoom(const RoundPart& part) const;

  const uint64_t max_bytes_;
  std::vector<PrefixRange> ranges_;  // that are wanted; those that touch are one
  size_t next_ = 0;                  // of them; it may have begun
  LiveList::Cursor live_;
};

}  // namespace tilekv
