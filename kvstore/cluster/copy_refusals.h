// For repair, when a copy is pulled or offered: what the collector found to be garbage is not
// copied again from a node that was away. NodeRounds answers, by the lists that it keeps.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/base/revision.h"
#include "kvstore/node/round.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

// By which round a copy is refused: its S (round.snapshot) and M (round.fence) go to the asker.
struct CopyRefusal {
  RoundName round;
};

// Thread-safe.
class CopyRefusals {
 public:
  virtual ~CopyRefusals() = default;
  // Whether a copy of this object with this touched_rev is refused. None: it is not, or there is no
  // list to tell by. From this node's disk alone.
  virtual absl::StatusOr<std::optional<CopyRefusal>> RefusalOf(Domain domain, const ObjectId& id,
                                                               Revision touched_rev) = 0;
  // Before anybody deletes a copy because of a refusal, with DeleteBelow(domain, id,
  // refusal.round.fence): OK where the catalog, read now, has this very round in force. As
  // CheckRound.
  virtual absl::Status Confirm(const CopyRefusal& refusal) = 0;
};

}  // namespace tilekv
