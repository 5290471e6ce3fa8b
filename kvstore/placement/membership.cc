#include "kvstore/placement/membership.h"

#include <algorithm>
#include <utility>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

// An edit that cannot be refused, since its condition has been looked at.
void Apply(absl::StatusOr<ClusterMap> next, MembershipDecision& decision) {
  TILEKV_CHECK(next.ok());
  decision.proposal = *std::move(next);
}

}  // namespace

void Membership::OnMap(std::shared_ptr<const ClusterMap> map, int64_t now_nanos) {
  // Answers of the catalog may come out of order.
  if (map_ != nullptr && map->version() < map_->version()) return;
  map_ = std::move(map);
  Follow(now_nanos);
}

void Membership::OnListing(NodeIds registered, int64_t now_nanos) {
  registered_ = std::move(registered);
  Follow(now_nanos);
}

void Membership::OnRegistered(std::string_view id, int64_t now_nanos) {
  if (!registered_.has_value()) return;
  registered_->emplace(id);
  Follow(now_nanos);
}

void Membership::OnGone(std::string_view id, int64_t now_nanos) {
  if (!registered_.has_value()) return;
  if (auto at = registered_->find(id); at != registered_->end()) registered_->erase(at);
  Follow(now_nanos);
}

void Membership::OnCatalogLost() {
  registered_.reset();
  missing_since_nanos_.clear();
}

void Membership::Follow(int64_t now_nanos) {
  const NodeIds missing = Missing();
  std::erase_if(missing_since_nanos_, [&](const auto& timer) {
    return !missing.contains(timer.first) || map_->Find(timer.first)->maintenance;
  });
  for (const std::string& id : missing) {
    if (!map_->Find(id)->maintenance) missing_since_nanos_.emplace(id, now_nanos);
  }
}

NodeIds Membership::Missing() const {
  NodeIds missing;
  if (map_ == nullptr || !registered_.has_value()) return missing;
  for (const MapNode& node : map_->nodes()) {
    if (!registered_->contains(node.id)) missing.insert(node.id);
  }
  return missing;
}

MembershipDecision Membership::Decide(int64_t now_nanos) const {
  MembershipDecision decision;
  if (map_ == nullptr || !registered_.has_value()) return decision;
  const auto current = [&]() -> const ClusterMap& {
    return decision.proposal.has_value() ? *decision.proposal : *map_;
  };
  for (const MapNode& node : map_->nodes()) {
    if (!node.automatic_out || !registered_->contains(node.id)) continue;
    Apply(MarkInAutomatically(current(), node.id), decision);
    decision.marked_in.push_back(node.id);
  }

  const int64_t out_after_nanos = map_->settings().out_after_s * kNanosPerSecond;
  std::vector<std::pair<int64_t, std::string>> due;
  for (const auto& [id, since_nanos] : missing_since_nanos_) {
    if (map_->Find(id)->state != NodeState::kIn) continue;
    const int64_t at_nanos = since_nanos + out_after_nanos;
    if (at_nanos <= now_nanos) {
      due.emplace_back(since_nanos, id);
    } else if (!decision.next_nanos.has_value() || at_nanos < *decision.next_nanos) {
      decision.next_nanos = at_nanos;
    }
  }
  std::sort(due.begin(), due.end());
  const NodeIds missing = Missing();
  for (const auto& [since_nanos, id] : due) {
    const AutomaticOut why = MayMarkOut(current(), id, missing);
    if (why != AutomaticOut::kAllowed) {
      decision.held.push_back({id, why});
      continue;
    }
    Apply(MarkOutAutomatically(current(), id, missing), decision);
    decision.marked_out.push_back(id);
  }
  return decision;
}

}  // namespace tilekv
