#include "tests/simulation/simulated_network.h"

#include <algorithm>
#include <utility>

#include "kvstore/base/status.h"

namespace tilekv::simulation {
namespace {

struct NamedBug {
  Bug bug;
  std::string_view name;
};
constexpr NamedBug kNames[] = {
    {Bug::kNone, "none"},
    {Bug::kDropWithoutEqualMaps, "drop_without_equal_maps"},
    {Bug::kDropLosesTouchedRev, "drop_loses_touched_rev"},
    {Bug::kCommitWithoutFinalCount, "commit_without_final_count"},
    {Bug::kDigestsOfIdsOnly, "digests_of_ids_only"},
    {Bug::kRaiseNotSynced, "raise_not_synced"},
    {Bug::kRefusalWithoutList, "refusal_without_list"},
};

template <typename Ref>
std::vector<ObjectRef> ObjectsOf(std::span<const Ref> refs) {
  std::vector<ObjectRef> objects;
  for (const Ref& ref : refs) objects.push_back(ref.ref);
  return objects;
}

class SimulatedPeer : public Peer {
 public:
  SimulatedPeer(Network& network, SimulatedOutlook& from, std::shared_ptr<Peer> to)
      : network_(network), from_(from), to_(std::move(to)) {}
  const std::string& node_id() const override { return to_->node_id(); }

  absl::StatusOr<PeerLinkAnswer> Link(Domain domain, std::span<const ObjectRef> refs,
                                      Revision session_rev, const CallContext& context) override {
    return Message<PeerLinkAnswer>("link", [&] {
      network_.MayRaise(node_id(), {refs.begin(), refs.end()});
      return to_->Link(domain, refs, session_rev, context);
    });
  }
  absl::StatusOr<std::unique_ptr<CopyWriter>> NewCopy(const PutSpec& spec,
                                                      const CallContext& context) override {
    return Message<std::unique_ptr<CopyWriter>>("copy",
                                                [&] { return to_->NewCopy(spec, context); });
  }
  absl::StatusOr<std::shared_ptr<ObjectReader>> OpenCopy(Domain domain, const ObjectId& id,
                                                         const CallContext& context) override {
    return Message<std::shared_ptr<ObjectReader>>(
        "open", [&] { return to_->OpenCopy(domain, id, context); });
  }
  absl::Status ReportDamage(Domain domain, const ObjectId& id,
                            const CallContext& context) override {
    return to_->ReportDamage(domain, id, context);
  }
  absl::StatusOr<DigestAnswer> Digests(Domain domain, const PlacementVersion& placement,
                                       std::span<const uint32_t> partitions,
                                       const CallContext& context) override {
    absl::StatusOr<DigestAnswer> answer = Message<DigestAnswer>(
        "digests", [&] { return to_->Digests(domain, placement, partitions, context); });
    if (network_.bug() != Bug::kDigestsOfIdsOnly || !answer.ok()) return answer;
    const auto own = from_.node().answers->Digests(domain, placement, partitions, context);
    if (!own.ok()) return own.status();
    // As many objects of as many bytes: the same ones, whatever their revisions.
    for (size_t i = 0; i < std::min(own->digests.size(), answer->digests.size()); ++i) {
      const PartitionDigest& ours = own->digests[i];
      PartitionDigest& theirs = answer->digests[i];
      const bool same =
          ours.objects == theirs.objects && ours.content_bytes == theirs.content_bytes;
      if (same) theirs = ours;
    }
    return answer;
  }
  absl::StatusOr<PartitionPage> ListPartition(Domain domain, uint32_t partition,
                                              const std::optional<ObjectId>& after,
                                              const CallContext& context) override {
    return Message<PartitionPage>(
        "list", [&] { return to_->ListPartition(domain, partition, after, context); });
  }
  absl::StatusOr<OfferAnswer> Offer(Domain domain, const PlacementVersion& placement,
                                    std::span<const TouchedRef> refs,
                                    const CallContext& context) override {
    return Message<OfferAnswer>("offer", [&] {
      network_.MayRaise(node_id(), ObjectsOf(refs));
      return to_->Offer(domain, placement, Sent(refs), context);
    });
  }
  absl::StatusOr<DropAnswer> ConfirmDrop(Domain domain, const PlacementVersion& placement,
                                         std::span<const TouchedRef> refs,
                                         const CallContext& context) override {
    const bool any_map = network_.bug() == Bug::kDropWithoutEqualMaps;
    if (any_map) from_.Hold();
    return Message<DropAnswer>("confirm", [&]() -> absl::StatusOr<DropAnswer> {
      network_.MayRaise(node_id(), ObjectsOf(refs));
      absl::StatusOr<DropAnswer> answer = to_->ConfirmDrop(domain, placement, Sent(refs), context);
      if (!any_map || !answer.ok() || answer->placement == placement) return answer;
      // By the map that it has.
      answer = to_->ConfirmDrop(domain, answer->placement, Sent(refs), context);
      if (answer.ok()) answer->placement = placement;
      return answer;
    });
  }

  // No simulated node checks the cluster.
  absl::StatusOr<PartitionPage> ListCopies(Domain domain, const std::optional<ObjectId>& after,
                                           const CallContext& context) override {
    return to_->ListCopies(domain, after, context);
  }
  absl::StatusOr<VerifyAnswer> VerifyCopies(Domain domain, const std::optional<ObjectId>& after,
                                            const CallContext& context) override {
    return to_->VerifyCopies(domain, after, context);
  }
  absl::StatusOr<std::vector<bool>> HeldPartitions(Domain domain, uint32_t partition_bits,
                                                   const CallContext& context) override {
    return to_->HeldPartitions(domain, partition_bits, context);
  }
  absl::Status StoreRoundPart(const RoundPart& part, const CallContext& context) override {
    return to_->StoreRoundPart(part, context);
  }
  absl::StatusOr<SweepAnswer> SweepRound(Domain domain, const RoundName& round,
                                         const std::optional<ObjectId>& after,
                                         const CallContext& context) override {
    return to_->SweepRound(domain, round, after, context);
  }
  absl::StatusOr<SweepAnswer> CountGarbage(const RoundPart& part,
                                           const CallContext& context) override {
    return to_->CountGarbage(part, context);
  }

 private:
  std::vector<TouchedRef> Sent(std::span<const TouchedRef> refs) const {
    std::vector<TouchedRef> sent(refs.begin(), refs.end());
    if (network_.bug() == Bug::kDropLosesTouchedRev) {
      for (TouchedRef& ref : sent) ref.touched_rev = {1};
    }
    return sent;
  }
  template <typename Answer, typename Call>
  absl::StatusOr<Answer> Message(std::string_view what, const Call& call) {
    const Fate fate = network_.Sends(from_.node_id(), node_id(), what);
    if (fate == Fate::kRequestLost) return Lost();
    if (fate == Fate::kTwice) (void)call();
    absl::StatusOr<Answer> answer = call();
    network_.Answered(from_.node_id(), node_id(), what);
    if (fate == Fate::kAnswerLost) return Lost();
    return answer;
  }
  absl::Status Lost() const {
    return MakeError(Reason::kNodeUnavailable, "node " + node_id() + " does not answer");
  }

  Network& network_;
  SimulatedOutlook& from_;
  const std::shared_ptr<Peer> to_;
};

}  // namespace

std::optional<Bug> BugOf(std::string_view name) {
  for (const NamedBug& named : kNames) {
    if (named.name == name) return named.bug;
  }
  return std::nullopt;
}

std::string_view NameOf(Bug bug) {
  return std::find_if(std::begin(kNames), std::end(kNames),
                      [bug](const NamedBug& named) { return named.bug == bug; })
      ->name;
}

const std::vector<Bug>& AllBugs() {
  static const std::vector<Bug> bugs = [] {
    std::vector<Bug> all;
    for (const NamedBug& named : kNames) {
      if (named.bug != Bug::kNone) all.push_back(named.bug);
    }
    return all;
  }();
  return bugs;
}

std::shared_ptr<Peer> SimulatedOutlook::Find(std::string_view node_id) {
  std::shared_ptr<Peer> peer = node_.outlook->Find(node_id);
  if (peer == nullptr) return nullptr;
  return std::make_shared<SimulatedPeer>(network_, *this, std::move(peer));
}

std::shared_ptr<const Placement> SimulatedOutlook::placement() {
  return held_ != nullptr ? held_ : node_.outlook->placement();
}

}  // namespace tilekv::simulation
