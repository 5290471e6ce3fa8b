// What the collector of a cluster's node does together with the other nodes. kvstore/cluster does
// it; a store by itself has none.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/revision.h"
#include "kvstore/node/live_list.h"
#include "kvstore/node/round.h"
#include "kvstore/object/object_id.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// Thread-safe and blocking.
class SharedCollection {
 public:
  virtual ~SharedCollection() = default;

  // Of the cluster's nodes one collects at a time: while it lives, this one. Two would do no harm.
  class Turn {
   public:
    virtual ~Turn() = default;
    // To be called as work goes on. OVERLOADED: the turn is lost.
    virtual absl::Status Renew() = 0;
  };
  // OVERLOADED names the node whose turn it is.
  virtual absl::StatusOr<std::unique_ptr<Turn>> TakeTurn() = 0;

  // Of the rounds that this node was told, by whichever node: a session below it is over.
  virtual Revision fence() = 0;

  // Every node of the cluster map deletes its copies of what is not in `live` and was touched
  // before the round's fence; adds to the response what became of it, and who was not reached. Dry:
  // nobody deletes or keeps anything, and the response tells what would be deleted; there is no
  // turn. VERSION_CONFLICT: another round has begun.
  virtual absl::Status Sweep(Domain domain, const RoundName& round, const LiveList& live,
                             Turn* turn, v1::CollectResponse& response,
                             const CallContext& context) = 0;
};

}  // namespace tilekv
