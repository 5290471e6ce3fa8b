#include "kvstore/node/round.h"

#include <optional>

#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"

namespace tilekv {

RoundName NameOfRound(const v1::RoundRecord& record) {
  return {.id = record.value(),
          .line_id = record.line_id(),
          .snapshot = {record.snapshot_rev()},
          .fence = {record.fence()}};
}

absl::Status CheckRound(Catalog& catalog, const RoundName& round) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, catalog.Get(kRoundKey));
  v1::RoundRecord record;
  const bool same = entry && record.ParseFromString(entry->value) &&
                    record.state() == v1::ROUND_STATE_IN_FORCE && NameOfRound(record) == round;
  if (!same) {
    return MakeError(Reason::kVersionConflict,
                     "the collector's round is not the catalog's: another one has begun, or the "
                     "catalog has gone back");
  }
  // It knows by now whether what it has just read has gone back.
  return catalog.CheckWritable();
}

}  // namespace tilekv
