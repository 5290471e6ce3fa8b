// What a node tells of its own copies to whoever checks the cluster, from its own disk alone.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/cluster/repair_values.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

// The next kMaxRepairBatch rows above `after`, in any state.
absl::StatusOr<PartitionPage> ListCopies(ObjectStore& objects, Domain domain,
                                         const std::optional<ObjectId>& after);

// Reads the next copies above `after`, one at least if there is one, until kVerifyStepBytes were
// read. Those that are damaged are quarantined, as by the scrubber; what is gone meanwhile does not
// count.
absl::StatusOr<VerifyAnswer> VerifyCopies(ObjectStore& objects, Domain domain,
                                          const std::optional<ObjectId>& after,
                                          const CallContext& context);

}  // namespace tilekv
