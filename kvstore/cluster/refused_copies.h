// What becomes of this node's copies that an owner has refused as garbage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/cluster/repair_parts.h"
#include "kvstore/cluster/repair_values.h"

namespace tilekv {

// Of what was offered to one node; one answer names one round.
struct RefusedCopies {
  std::optional<RoundName> round;
  std::vector<ObjectId> ids;

  // `offered` in the order of the answer's outcomes.
  void Add(std::span<const TouchedRef> offered, const OfferAnswer& answer);
};

// Deletes those whose revision is still below the round's fence, as the collector would; not by the
// owner's word alone, but where the catalog has this very round in force. How many went. An error
// is of this node's disk.
absl::StatusOr<uint64_t> DropRefused(RepairParts& parts, const RefusedCopies& refused);

}  // namespace tilekv
