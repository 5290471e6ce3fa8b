#include "kvstore/placement/placement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/placement/rendezvous.h"

namespace tilekv {
namespace {

std::vector<uint64_t> SeedsOf(const ClusterMap& map) {
  std::vector<uint64_t> seeds;
  for (const MapNode& node : map.nodes()) seeds.push_back(NodeSeed(node.id));
  return seeds;
}

}  // namespace

bool Owners::Contains(NodeIndex node) const { return std::find(begin(), end(), node) != end(); }

Placement::Placement(std::shared_ptr<const ClusterMap> map)
    : map_(std::move(map)), seeds_(SeedsOf(*map_)), slots_(new Slot[partitions()]) {}

uint32_t Placement::PartitionOf(const ObjectId& id) const {
  return static_cast<uint32_t>(id.Prefix64() >> (64 - map_->settings().partition_bits));
}

std::optional<ObjectId> Placement::BeforePartition(uint32_t partition) const {
  TILEKV_CHECK(partition < partitions());
  if (partition == 0) return std::nullopt;
  const uint64_t first = uint64_t{partition} << (64 - map_->settings().partition_bits);
  std::string head;
  AppendBe64(head, first - 1);
  ObjectId before;
  before.bytes.fill(0xff);
  std::copy(head.begin(), head.end(), before.bytes.begin());
  return before;
}

Owners Placement::OwnersOf(uint32_t partition) const {
  TILEKV_CHECK(partition < partitions());
  Slot& slot = slots_[partition];
  if (slot.state.load(std::memory_order_acquire) == Slot::kReady) return slot.owners;
  const Owners owners = Choose(partition);
  uint8_t expected = Slot::kEmpty;
  if (slot.state.compare_exchange_strong(expected, Slot::kBusy, std::memory_order_relaxed)) {
    slot.owners = owners;
    slot.state.store(Slot::kReady, std::memory_order_release);
  }
  return owners;
}

std::vector<NodeIndex> Placement::OrderOf(uint32_t partition) const {
  std::vector<std::pair<uint64_t, NodeIndex>> ranked;  // equal costs: by id, as the indexes are
  ranked.reserve(seeds_.size());
  for (size_t i = 0; i < seeds_.size(); ++i) {
    ranked.emplace_back(PlacementCost(seeds_[i], partition, map_->nodes()[i].weight_milli),
                        static_cast<NodeIndex>(i));
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<NodeIndex> order;
  order.reserve(ranked.size());
  for (const auto& [cost, node] : ranked) order.push_back(node);
  return order;
}

Owners Placement::Choose(uint32_t partition) const {
  const std::vector<NodeIndex> order = OrderOf(partition);
  Owners owners;
  const auto fits = [&](const MapNode& node, Owners::Pass pass) {
    return std::none_of(owners.begin(), owners.end(), [&](NodeIndex chosen) {
      const MapNode& owner = map_->nodes()[chosen];
      return pass == Owners::Pass::kNewZone   ? owner.zone == node.zone
             : pass == Owners::Pass::kNewHost ? owner.host == node.host
                                              : owner.id == node.id;
    });
  };
  for (Owners::Pass pass : {Owners::Pass::kNewZone, Owners::Pass::kNewHost, Owners::Pass::kAny}) {
    for (NodeIndex candidate : order) {
      if (HasAllOwners(owners)) return owners;
      const MapNode& node = map_->nodes()[candidate];
      if (node.state != NodeState::kIn || !fits(node, pass)) continue;
      owners.nodes[owners.count++] = candidate;
      owners.pass = pass;
    }
  }
  return owners;
}

std::vector<NodeIndex> Placement::OwnersThenOthers(uint32_t partition) const {
  const Owners owners = OwnersOf(partition);
  std::vector<NodeIndex> nodes(owners.begin(), owners.end());
  for (NodeIndex node : OrderOf(partition)) {
    if (!owners.Contains(node)) nodes.push_back(node);
  }
  return nodes;
}

}  // namespace tilekv
