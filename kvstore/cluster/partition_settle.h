// Settles one partition that this node owns and whose owners do not all hold the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/cluster/refused_copies.h"
#include "kvstore/cluster/repair_parts.h"

namespace tilekv {

// Goes through the rows of all owners side by side, a page at a time: what this node lacks goes on
// the list of pulls; a revision that is lower here is raised, one that is lower there, or an object
// that is not there, is offered, and goes here too where the other one's round has collected it.
// For one thread at a time.
class PartitionSettle {
 public:
  PartitionSettle(RepairParts& parts, const OwnPlacement& own, uint32_t partition)
      : parts_(parts), own_(own), partition_(partition) {}

  enum class Outcome { kMore, kDone, kNoRoom };  // kNoRoom: the list is full, for now
  // Nodes that do not answer are added to `silent`; those that are there are not asked.
  absl::StatusOr<Outcome> Step(SilentNodes& silent, const CallContext& context);

 private:
  struct Listing {
    NodeIndex node = 0;
    std::shared_ptr<Peer> peer;
    absl::StatusOr<PartitionPage> page;
    std::vector<TouchedRef> offers;
    RefusedCopies refused;
  };
  // What is known of one object.
  struct Known {
    ObjectRef ref;
    Revision highest;  // of good rows
    std::optional<PartitionRow> own;
    std::vector<const PartitionRow*> rows;  // by listing; null: it has none
  };

  std::vector<Listing> ListOthers(SilentNodes& silent, const CallContext& context);
  // Within what all pages reach to.
  std::map<ObjectId, Known> Merge(const PartitionPage& own, const std::vector<Listing>& others,
                                  bool& end);
  // False: there is no room to note it.
  bool Settle(const Known& known, std::vector<Listing>& others, std::vector<TouchedRef>& raises);
  void SendOffers(std::vector<Listing>& others, SilentNodes& silent, const CallContext& context);

  RepairParts& parts_;
  const OwnPlacement own_;
  const uint32_t partition_;
  std::optional<ObjectId> after_;  // settled up to here
};

}  // namespace tilekv
