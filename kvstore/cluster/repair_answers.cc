#include "kvstore/cluster/repair_answers.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/own_placement.h"
#include "kvstore/cluster/partition_rows.h"

namespace tilekv {
namespace {

// Rows that are read for one answer, beyond the first partition.
constexpr uint64_t kMaxDigestRows = 100'000;
// Content that is read from the disk for one answer, beyond the first object.
constexpr uint64_t kMaxVerifiedBytes = 64 * kMiB;

absl::Status CheckCount(size_t count) {
  if (count <= kMaxRepairBatch) return absl::OkStatus();
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("{} items in one question; at most {} are taken", count, kMaxRepairBatch));
}

absl::Status CheckPartition(const Placement& placement, uint32_t partition) {
  if (partition < placement.partitions()) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument, fmt::format("there is no partition {}; there are {}",
                                                         partition, placement.partitions()));
}

}  // namespace

absl::StatusOr<DigestAnswer> RepairAnswers::Digests(Domain domain,
                                                    const PlacementVersion& placement,
                                                    std::span<const uint32_t> partitions,
                                                    const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckCount(partitions.size()));
  const std::shared_ptr<const Placement> own = view_.placement();
  DigestAnswer answer{.placement = own->map().placement_version(), .digests = {}};
  if (answer.placement != placement) return answer;
  TILEKV_RETURN_IF_ERROR(context.Check());
  for (uint32_t partition : partitions) TILEKV_RETURN_IF_ERROR(CheckPartition(*own, partition));
  TILEKV_ASSIGN_OR_RETURN(answer.digests,
                          DigestsOf(objects_, domain, *own, partitions, kMaxDigestRows));
  return answer;
}

absl::StatusOr<PartitionPage> RepairAnswers::ListPartition(Domain domain, uint32_t partition,
                                                           const std::optional<ObjectId>& after,
                                                           const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  const std::shared_ptr<const Placement> own = view_.placement();
  TILEKV_RETURN_IF_ERROR(CheckPartition(*own, partition));
  return PageOf(objects_, domain, *own, partition, after);
}

absl::StatusOr<OfferAnswer> RepairAnswers::Offer(std::string_view from, Domain domain,
                                                 const PlacementVersion& placement,
                                                 std::span<const TouchedRef> refs,
                                                 const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckCount(refs.size()));
  TILEKV_RETURN_IF_ERROR(context.Check());
  const OwnPlacement own = OwnPlacement::Of(view_);
  OfferAnswer answer{.placement = own.version(), .outcomes = {}, .round = {}};
  if (answer.placement != placement) return answer;
  answer.outcomes.assign(refs.size(), OfferOutcome::kNotOwner);
  std::vector<TouchedRef> owned;
  std::vector<size_t> places;
  for (size_t i = 0; i < refs.size(); ++i) {
    if (!own.OwnsObject(refs[i].ref.id)) continue;
    owned.push_back(refs[i]);
    places.push_back(i);
  }
  TILEKV_ASSIGN_OR_RETURN(std::vector<LinkResult> linked, objects_.LinkEach(domain, owned));
  for (size_t i = 0; i < owned.size(); ++i) {
    OfferOutcome& outcome = answer.outcomes[places[i]];
    outcome = OfferOutcome::kHas;
    if (linked[i].present) continue;
    TILEKV_ASSIGN_OR_RETURN(outcome, OutcomeOfLacking(from, domain, owned[i], answer.round));
  }
  return answer;
}

absl::StatusOr<OfferOutcome> RepairAnswers::OutcomeOfLacking(std::string_view from, Domain domain,
                                                             const TouchedRef& offered,
                                                             std::optional<RoundName>& round) {
  if (refusals_ != nullptr) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<CopyRefusal> refusal,
                            refusals_->RefusalOf(domain, offered.ref.id, offered.touched_rev));
    if (refusal.has_value()) {
      if (!round.has_value()) round = refusal->round;
      // An answer names one round; what others refuse waits for the next offer.
      return *round == refusal->round ? OfferOutcome::kCollected : OfferOutcome::kNotNow;
    }
  }
  const bool noted =
      objects_.CheckWritable(offered.ref.length).ok() && wanted_.Want(domain, offered, from);
  return noted ? OfferOutcome::kWants : OfferOutcome::kNotNow;
}

absl::StatusOr<bool> RepairAnswers::IsSound(Domain domain, const ObjectRef& ref,
                                            uint64_t& left_bytes) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, objects_.Stat(domain, ref.id));
  if (!row.has_value() || row->state != RowState::kGood || row->ref != ref) return false;
  const int64_t age_micros = clock_.WallMicros() - row->verified_at_micros;
  // A time in the future is of a clock that was wrong.
  if (age_micros < 0 || age_micros > kScrubPeriod_s * 1'000'000) {
    if (left_bytes == 0) return false;
    left_bytes -= std::min(left_bytes, std::max<uint64_t>(row->stored_length, 1));
    TILEKV_ASSIGN_OR_RETURN(bool good, objects_.Verify(domain, ref.id));
    if (!good) return false;
  }
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> copy, objects_.Open(domain, ref.id));
  return copy->row().state == RowState::kGood && copy->row().ref == ref;
}

absl::StatusOr<DropAnswer> RepairAnswers::ConfirmDrop(Domain domain,
                                                      const PlacementVersion& placement,
                                                      std::span<const TouchedRef> refs,
                                                      const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckCount(refs.size()));
  const OwnPlacement own = OwnPlacement::Of(view_);
  DropAnswer answer{
      .placement = own.version(), .store_uuid = objects_.store_uuid(), .confirmed = {}};
  if (answer.placement != placement) return answer;
  std::vector<bool> confirmed(refs.size());
  std::vector<TouchedRef> sound;
  std::vector<size_t> places;
  uint64_t left_bytes = kMaxVerifiedBytes;
  for (size_t i = 0; i < refs.size(); ++i) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    if (!own.OwnsObject(refs[i].ref.id)) continue;
    // What cannot be looked at is not confirmed; the others may be.
    const absl::StatusOr<bool> is_sound = IsSound(domain, refs[i].ref, left_bytes);
    if (!is_sound.ok() || !*is_sound) continue;
    sound.push_back(refs[i]);
    places.push_back(i);
  }
  // The last look at the rows, each under its lock.
  TILEKV_ASSIGN_OR_RETURN(std::vector<LinkResult> linked, objects_.LinkEach(domain, sound));
  for (size_t i = 0; i < sound.size(); ++i) confirmed[places[i]] = linked[i].present;
  answer.placement = view_.placement()->map().placement_version();
  if (answer.placement == placement) answer.confirmed = std::move(confirmed);
  return answer;
}

}  // namespace tilekv
