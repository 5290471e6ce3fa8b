// Giving away what this node holds and does not own: one pass over it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/cluster/refused_copies.h"
#include "kvstore/cluster/repair_parts.h"

namespace tilekv {

// A page at a time: every owner is offered what it may have to pull; what all R owners hold is
// asked for, and dropped where all of them say yes. Copies in quarantine are offered to nobody and
// are kept until then too. For one thread at a time.
class ForeignCopies {
 public:
  // `partitions`: those of which this node holds something, and which it does not own.
  ForeignCopies(RepairParts& parts, const OwnPlacement& own, std::vector<uint32_t> partitions)
      : parts_(parts), own_(own), partitions_(std::move(partitions)) {}

  bool at_end() const { return next_ == partitions_.size(); }
  absl::Status Step(const CallContext& context);

  uint64_t dropped() const { return dropped_; }  // objects, in this pass
  uint64_t left() const { return kept_.size() + partitions_.size() - next_; }  // partitions
  // At the end: those of which something is left.
  std::vector<uint32_t> TakeKept() { return std::move(kept_); }

 private:
  struct Owner {
    NodeIndex node = 0;
    std::shared_ptr<Peer> peer;
    std::vector<uint8_t> has;  // by row of the page: it says that it holds it
    RefusedCopies refused;
    absl::StatusOr<OfferAnswer> offered;
    absl::StatusOr<DropAnswer> confirmed;
  };

  std::vector<Owner> OwnersOf(uint32_t partition);
  void OfferTo(std::vector<Owner>& owners, const PartitionPage& page, const CallContext& context);
  // Drops those rows that go. How many did.
  absl::StatusOr<uint64_t> Drop(std::vector<Owner>& owners, std::span<const TouchedRef> rows,
                                const CallContext& context);
  // How many stores, but this one, have confirmed row `i` of the question.
  size_t StoresThatConfirm(const std::vector<Owner>& owners, size_t i) const;

  RepairParts& parts_;
  const OwnPlacement own_;
  const std::vector<uint32_t> partitions_;
  size_t next_ = 0;                // of partitions_
  std::optional<ObjectId> after_;  // within it
  bool keeps_ = false;             // something of it stays
  SilentNodes silent_;
  SilentNodes busy_;  // take no offers in this pass
  std::vector<uint32_t> kept_;
  uint64_t dropped_ = 0;
};

}  // namespace tilekv
