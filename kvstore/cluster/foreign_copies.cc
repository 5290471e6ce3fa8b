#include "kvstore/cluster/foreign_copies.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/cluster/concurrently.h"
#include "kvstore/cluster/partition_rows.h"

namespace tilekv {
namespace {

// Of one question about drops: an owner opens each of them, from a slow disk too, while the asker
// waits for kPeerCall_ms.
constexpr size_t kAskedAtOnce = 128;
static_assert(kAskedAtOnce <= kMaxRepairBatch);

}  // namespace

std::vector<ForeignCopies::Owner> ForeignCopies::OwnersOf(uint32_t partition) {
  std::vector<Owner> owners;
  for (NodeIndex node : own_.OthersOf(partition)) {
    if (silent_.contains(node)) continue;
    std::shared_ptr<Peer> peer = parts_.peers.Find(own_.NameOf(node));
    if (peer == nullptr) continue;
    Owner& owner = owners.emplace_back();
    owner.node = node;
    owner.peer = std::move(peer);
  }
  return owners;
}

void ForeignCopies::OfferTo(std::vector<Owner>& owners, const PartitionPage& page,
                            const CallContext& context) {
  std::vector<TouchedRef> refs;
  std::vector<size_t> places;
  for (size_t i = 0; i < page.rows.size(); ++i) {
    if (page.rows[i].state == RowState::kQuarantined) continue;
    refs.push_back({page.rows[i].ref, page.rows[i].touched_rev});
    places.push_back(i);
  }
  std::vector<std::function<void()>> work;
  for (Owner& owner : owners) {
    // What is no good to offer may go all the same, where the owners hold it.
    owner.has.assign(page.rows.size(), 1);
    for (size_t place : places) owner.has[place] = 0;
    if (refs.empty() || busy_.contains(owner.node)) continue;
    parts_.counters.offers += refs.size();
    work.push_back([this, &owner, &refs, &context] {
      owner.offered = owner.peer->Offer(parts_.options.domain, own_.version(), refs, context);
    });
  }
  RunConcurrently(*parts_.options.executor, std::move(work));
  for (Owner& owner : owners) {
    if (refs.empty() || busy_.contains(owner.node)) continue;
    if (!owner.offered.ok() || owner.offered->outcomes.size() != refs.size()) {
      silent_.insert(owner.node);
      continue;
    }
    owner.refused.Add(refs, *owner.offered);
    for (size_t i = 0; i < refs.size(); ++i) {
      const OfferOutcome outcome = owner.offered->outcomes[i];
      owner.has[places[i]] = outcome == OfferOutcome::kHas ? 1 : 0;
      if (outcome == OfferOutcome::kNotNow) busy_.insert(owner.node);
    }
  }
}

size_t ForeignCopies::StoresThatConfirm(const std::vector<Owner>& owners, size_t i) const {
  std::set<std::string_view> stores;
  for (const Owner& owner : owners) {
    if (owner.confirmed->confirmed[i]) stores.insert(owner.confirmed->store_uuid);
  }
  stores.erase(parts_.local.store_uuid());
  return stores.size();
}

absl::StatusOr<uint64_t> ForeignCopies::Drop(std::vector<Owner>& owners,
                                             std::span<const TouchedRef> rows,
                                             const CallContext& context) {
  Clock& clock = *parts_.options.clock;
  const int64_t asked_nanos = clock.MonotonicNanos();
  std::vector<std::function<void()>> work;
  for (Owner& owner : owners) {
    work.push_back([this, &owner, rows, &context] {
      owner.confirmed =
          owner.peer->ConfirmDrop(parts_.options.domain, own_.version(), rows, context);
    });
  }
  RunConcurrently(*parts_.options.executor, std::move(work));
  for (const Owner& owner : owners) {
    const bool answered = owner.confirmed.ok() && owner.confirmed->placement == own_.version() &&
                          owner.confirmed->confirmed.size() == rows.size();
    if (!answered) silent_.insert(owner.node);
    if (!answered) return 0;
  }
  const size_t replication = own_.map().settings().replication;
  std::vector<TouchedRef> going;
  uint64_t bytes = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (StoresThatConfirm(owners, i) >= replication) going.push_back(rows[i]);
  }
  if (going.empty()) return 0;
  TILEKV_ASSIGN_OR_RETURN(
      std::vector<bool> dropped, parts_.local.DropUnchanged(parts_.options.domain, going, [&] {
        return clock.MonotonicNanos() - asked_nanos < kDropAnswerCounts_ms * 1'000'000 &&
               parts_.view.placement()->map().placement_version() == own_.version();
      }));
  uint64_t count = 0;
  for (size_t i = 0; i < going.size(); ++i) {
    if (!dropped[i]) continue;
    ++count;
    bytes += going[i].ref.length;
  }
  dropped_ += count;
  parts_.counters.dropped_objects += count;
  parts_.counters.dropped_bytes += bytes;
  return count;
}

absl::Status ForeignCopies::Step(const CallContext& context) {
  if (at_end()) return absl::OkStatus();
  TILEKV_RETURN_IF_ERROR(context.Check());
  const uint32_t partition = partitions_[next_];
  TILEKV_ASSIGN_OR_RETURN(PartitionPage page, PageOf(parts_.local, parts_.options.domain,
                                                     *own_.placement, partition, after_));
  uint64_t dropped = 0;
  if (!page.rows.empty()) {
    std::vector<Owner> owners = OwnersOf(partition);
    OfferTo(owners, page, context);
    for (const Owner& owner : owners) {
      TILEKV_ASSIGN_OR_RETURN(const uint64_t refused, DropRefused(parts_, owner.refused));
      dropped += refused;
    }
    std::vector<TouchedRef> rows;
    for (size_t i = 0; i < page.rows.size(); ++i) {
      const bool all_have = std::all_of(owners.begin(), owners.end(),
                                        [i](const Owner& owner) { return owner.has[i] != 0; });
      if (all_have) rows.push_back({page.rows[i].ref, page.rows[i].touched_rev});
    }
    // Fewer owners than R, because fewer nodes are in or because one does not answer: all stays.
    const bool may_drop = owners.size() == own_.map().settings().replication;
    for (size_t at = 0; may_drop && at < rows.size(); at += kAskedAtOnce) {
      const auto some = std::span(rows).subspan(at, std::min(kAskedAtOnce, rows.size() - at));
      TILEKV_ASSIGN_OR_RETURN(const uint64_t gone, Drop(owners, some, context));
      dropped += gone;
    }
    after_ = page.rows.back().ref.id;
  }
  keeps_ |= dropped < page.rows.size();
  if (!page.end) return absl::OkStatus();
  if (std::exchange(keeps_, false)) kept_.push_back(partition);
  after_.reset();
  ++next_;
  return absl::OkStatus();
}

}  // namespace tilekv
