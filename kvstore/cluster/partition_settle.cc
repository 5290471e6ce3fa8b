#include "kvstore/cluster/partition_settle.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/cluster/concurrently.h"
#include "kvstore/cluster/partition_rows.h"

namespace tilekv {
namespace {

bool IsGood(const PartitionRow* row) { return row != nullptr && row->state == RowState::kGood; }

// Whether a copy may be read there, at last.
bool IsReadable(const PartitionRow* row) {
  return row != nullptr && row->state != RowState::kQuarantined;
}

}  // namespace

std::vector<PartitionSettle::Listing> PartitionSettle::ListOthers(SilentNodes& silent,
                                                                  const CallContext& context) {
  std::vector<Listing> listings;
  for (NodeIndex node : own_.OthersOf(partition_)) {
    if (silent.contains(node)) continue;
    std::shared_ptr<Peer> peer = parts_.peers.Find(own_.NameOf(node));
    if (peer == nullptr) continue;
    Listing& listing = listings.emplace_back();
    listing.node = node;
    listing.peer = std::move(peer);
  }
  std::vector<std::function<void()>> work;
  for (Listing& listing : listings) {
    work.push_back([this, &listing, &context] {
      listing.page =
          listing.peer->ListPartition(parts_.options.domain, partition_, after_, context);
    });
  }
  RunConcurrently(*parts_.options.executor, std::move(work));
  for (const Listing& listing : listings) {
    // A page without an end that leads nowhere would be asked for again for ever.
    const bool useful = listing.page.ok() && (listing.page->end || !listing.page->rows.empty());
    if (!useful) silent.insert(listing.node);
  }
  std::erase_if(listings,
                [&silent](const Listing& listing) { return silent.contains(listing.node); });
  return listings;
}

std::map<ObjectId, PartitionSettle::Known> PartitionSettle::Merge(
    const PartitionPage& own, const std::vector<Listing>& others, bool& end) {
  std::optional<ObjectId> reach;
  const auto note_reach = [&reach](const PartitionPage& page) {
    if (page.end) return;
    const ObjectId& last = page.rows.back().ref.id;
    reach = reach.has_value() ? std::min(*reach, last) : last;
  };
  note_reach(own);
  for (const Listing& other : others) note_reach(*other.page);
  std::map<ObjectId, Known> known;
  const auto add = [&](const PartitionRow& row) -> Known* {
    if (reach.has_value() && row.ref.id > *reach) return nullptr;
    const auto [at, is_new] = known.try_emplace(row.ref.id);
    Known& object = at->second;
    if (is_new) {
      object.ref = row.ref;
      object.rows.resize(others.size());
    }
    if (row.ref != object.ref) return nullptr;  // level and length are part of the id
    if (row.state == RowState::kGood) object.highest = std::max(object.highest, row.touched_rev);
    return &object;
  };
  for (const PartitionRow& row : own.rows) {
    if (Known* object = add(row)) object->own = row;
  }
  for (size_t i = 0; i < others.size(); ++i) {
    for (const PartitionRow& row : others[i].page->rows) {
      if (Known* object = add(row)) object->rows[i] = &row;
    }
  }
  end = !reach.has_value();
  return known;
}

bool PartitionSettle::Settle(const Known& known, std::vector<Listing>& others,
                             std::vector<TouchedRef>& raises) {
  const TouchedRef wanted{known.ref, known.highest};
  if (!known.own.has_value() || known.own->state != RowState::kGood) {
    std::vector<std::string> holders;
    bool readable = known.own.has_value();
    for (size_t i = 0; i < others.size(); ++i) {
      readable |= IsReadable(known.rows[i]);
      if (IsGood(known.rows[i])) holders.push_back(own_.NameOf(others[i].node));
    }
    // Where nobody has a good copy whoever has one that is suspect is found when it is pulled.
    return !readable || parts_.pulls.Add(wanted, holders);
  }
  if (known.own->touched_rev < known.highest) raises.push_back(wanted);
  for (size_t i = 0; i < others.size(); ++i) {
    if (IsGood(known.rows[i]) && known.rows[i]->touched_rev == known.highest) continue;
    others[i].offers.push_back(wanted);
  }
  return true;
}

void PartitionSettle::SendOffers(std::vector<Listing>& others, SilentNodes& silent,
                                 const CallContext& context) {
  std::vector<std::function<void()>> work;
  std::vector<uint8_t> answered(others.size(), 1);
  for (size_t i = 0; i < others.size(); ++i) {
    if (others[i].offers.empty()) continue;
    parts_.counters.offers += others[i].offers.size();
    work.push_back([this, &context, &other = others[i], &ok = answered[i]] {
      std::span<const TouchedRef> left = other.offers;
      while (ok && !left.empty()) {
        const auto some = left.first(std::min(left.size(), kMaxRepairBatch));
        left = left.subspan(some.size());
        const absl::StatusOr<OfferAnswer> answer =
            other.peer->Offer(parts_.options.domain, own_.version(), some, context);
        ok = answer.ok() && answer->outcomes.size() == some.size();
        if (ok) other.refused.Add(some, *answer);
      }
    });
  }
  RunConcurrently(*parts_.options.executor, std::move(work));
  for (size_t i = 0; i < others.size(); ++i) {
    if (!answered[i]) silent.insert(others[i].node);
  }
}

absl::StatusOr<PartitionSettle::Outcome> PartitionSettle::Step(SilentNodes& silent,
                                                               const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  std::vector<Listing> others = ListOthers(silent, context);
  if (others.empty()) return Outcome::kDone;
  TILEKV_ASSIGN_OR_RETURN(PartitionPage own, PageOf(parts_.local, parts_.options.domain,
                                                    *own_.placement, partition_, after_));
  bool end = false;
  const std::map<ObjectId, Known> known = Merge(own, others, end);
  std::vector<TouchedRef> raises;
  bool room = true;
  for (const auto& [id, object] : known) {
    room = Settle(object, others, raises);
    if (!room) break;
    after_ = id;
  }
  TILEKV_RETURN_IF_ERROR(parts_.local.LinkEach(parts_.options.domain, raises).status());
  parts_.counters.raised_revisions += raises.size();
  SendOffers(others, silent, context);
  for (const Listing& other : others) {
    TILEKV_RETURN_IF_ERROR(DropRefused(parts_, other.refused).status());
  }
  if (!room) return Outcome::kNoRoom;
  return end ? Outcome::kDone : Outcome::kMore;
}

}  // namespace tilekv
