#include "kvstore/cluster/refused_copies.h"

#include <algorithm>

#include "kvstore/base/status.h"
#include "kvstore/cluster/copy_refusals.h"

namespace tilekv {

void RefusedCopies::Add(std::span<const TouchedRef> offered, const OfferAnswer& answer) {
  if (!answer.round.has_value()) return;
  // What an older round refused is refused again, or not, when it is offered again.
  if (round.has_value() && *round != *answer.round) ids.clear();
  round = answer.round;
  for (size_t i = 0; i < offered.size(); ++i) {
    if (answer.outcomes[i] == OfferOutcome::kCollected) ids.push_back(offered[i].ref.id);
  }
}

absl::StatusOr<uint64_t> DropRefused(RepairParts& parts, const RefusedCopies& refused) {
  CopyRefusals* const refusals = parts.options.refusals;
  if (refusals == nullptr || refused.ids.empty()) return 0;
  if (!refusals->Confirm({*refused.round}).ok()) return 0;
  TILEKV_ASSIGN_OR_RETURN(
      std::vector<bool> deleted,
      parts.local.DeleteAllBelow(parts.options.domain, refused.ids, refused.round->fence));
  const auto count = static_cast<uint64_t>(std::count(deleted.begin(), deleted.end(), true));
  parts.counters.collected_objects += count;
  return count;
}

}  // namespace tilekv
