// What a node of a cluster is asked in the collector's rounds, by the node that collects: it
// answers from its own disk and the catalog.
//
// 1. Which partitions it has rows of. It gets the lists of these, and of those that it owns.
// 2. The lists, in parts. Each part is whole in itself: everything that is in use in the ranges
//    that it covers. Parts of one round do not overlap and come in ascending order; the same part
//    again is fine. A part is durable before it counts, and stays until later rounds take its
//    place.
// 3. The sweep, in steps. Before each batch the node reads the round's record in the catalog.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/node/round.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

// Of ids, by their Prefix64.
struct PrefixRange {
  uint64_t first = 0;
  uint64_t last = 0;  // within it

  bool Contains(uint64_t prefix) const { return first <= prefix && prefix <= last; }
  friend bool operator==(const PrefixRange&, const PrefixRange&) = default;
};

// At most kRoundPartBytes of ranges and prefixes, and at least one range.
struct RoundPart {
  Domain domain = kDefaultDomain;
  RoundName round;
  std::vector<PrefixRange> ranges;  // ascending, apart from each other
  std::vector<uint64_t> prefixes;   // of what is in use in these; ascending
};

struct SweepAnswer {
  // Of copies: what was deleted, or in a dry run would be; and what is not in use, but was touched
  // since the fence.
  uint64_t deleted_objects = 0;
  uint64_t deleted_bytes = 0;  // of content
  uint64_t kept_objects = 0;
  // The next step begins above this id. None: the sweep is over.
  std::optional<ObjectId> next_after;
};

// Thread-safe.
class RoundPeer {
 public:
  virtual ~RoundPeer() = default;

  // Of a bit for each of the 2^partition_bits partitions: those of which it holds a row.
  virtual absl::StatusOr<std::vector<bool>> HeldPartitions(Domain domain, uint32_t partition_bits,
                                                           const CallContext& context) = 0;
  // VERSION_CONFLICT: the round is not the catalog's, or a later one was stored already.
  // INVALID_ARGUMENT: not a part as above.
  virtual absl::Status StoreRoundPart(const RoundPart& part, const CallContext& context) = 0;
  // One step over the parts of this round that are stored, from the first id above `after`.
  // VERSION_CONFLICT as above.
  virtual absl::StatusOr<SweepAnswer> SweepRound(Domain domain, const RoundName& round,
                                                 const std::optional<ObjectId>& after,
                                                 const CallContext& context) = 0;
  // For a dry run: what a sweep by this part would delete. Nothing is stored; the round need not be
  // one that the catalog knows.
  virtual absl::StatusOr<SweepAnswer> CountGarbage(const RoundPart& part,
                                                   const CallContext& context) = 0;
};

}  // namespace tilekv
