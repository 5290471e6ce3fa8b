// What a node answers to others that repair, from its own disk alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/clock.h"
#include "kvstore/cluster/cluster_view.h"
#include "kvstore/cluster/copy_refusals.h"
#include "kvstore/cluster/repair_values.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

// Where it is noted what others offer and this node lacks. Thread-safe; must not block.
class WantedCopies {
 public:
  virtual ~WantedCopies() = default;
  // False: there is no room for it now. True also where it is noted already.
  virtual bool Want(Domain domain, const TouchedRef& wanted, std::string_view holder) = 0;
};

// Blocking and thread-safe; whoever carries the questions calls it: a service over gRPC, or memory
// in tests. INVALID_ARGUMENT for questions that are too long or name partitions that there are not.
// Everything that it refers to outlives it.
//
// 1. A question of another placement version gets an empty answer: the asker does not know the
//    owners that this node knows.
// 2. Only good rows count, for digests and for answers to offers and drops.
// 3. An offer of an object that this node owns and holds raises its touched_rev, which is synced
//    before the answer. What it owns and lacks, or holds damaged, is noted in `wanted`.
// 4. What is offered and is garbage by this node's list of the last round is not noted: a node that
//    was away would bring back what was deleted (copy_refusals.h).
// 5. A drop is confirmed for an object that this node owns, whose copy was verified within the
//    scrubber's period or is verified now, and opens with the right length; after its touched_rev
//    was raised to the asker's. At the end the placement version is still the same.
class RepairAnswers {
 public:
  // `refusals` may be null: nothing is refused.
  RepairAnswers(ObjectStore& objects, ClusterView& view, WantedCopies& wanted,
                CopyRefusals* refusals, Clock& clock)
      : objects_(objects), view_(view), wanted_(wanted), refusals_(refusals), clock_(clock) {}

  absl::StatusOr<DigestAnswer> Digests(Domain domain, const PlacementVersion& placement,
                                       std::span<const uint32_t> partitions,
                                       const CallContext& context);
  absl::StatusOr<PartitionPage> ListPartition(Domain domain, uint32_t partition,
                                              const std::optional<ObjectId>& after,
                                              const CallContext& context);
  // `from`: the node that asks, which holds the objects.
  absl::StatusOr<OfferAnswer> Offer(std::string_view from, Domain domain,
                                    const PlacementVersion& placement,
                                    std::span<const TouchedRef> refs, const CallContext& context);
  absl::StatusOr<DropAnswer> ConfirmDrop(Domain domain, const PlacementVersion& placement,
                                         std::span<const TouchedRef> refs,
                                         const CallContext& context);

 private:
  // What comes of an offer of an object that this node owns and has no good copy of.
  absl::StatusOr<OfferOutcome> OutcomeOfLacking(std::string_view from, Domain domain,
                                                const TouchedRef& offered,
                                                std::optional<RoundName>& round);
  // Whether the copy may be counted on for a drop, before its revision was raised. Takes what it
  // reads from `left_bytes`; copies that are to be verified and find nothing left are not counted.
  absl::StatusOr<bool> IsSound(Domain domain, const ObjectRef& ref, uint64_t& left_bytes);

  ObjectStore& objects_;
  ClusterView& view_;
  WantedCopies& wanted_;
  CopyRefusals* const refusals_;
  Clock& clock_;
};

}  // namespace tilekv
