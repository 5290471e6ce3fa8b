#include "kvstore/placement/map_edits.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tilekv/v1/cluster.pb.h"

namespace tilekv {
namespace {

absl::Status Refused(std::string text) {
  return MakeError(Reason::kInvalidArgument, std::move(text));
}

absl::Status NoNode(std::string_view id) {
  return MakeError(Reason::kNotFound,
                   fmt::format("there is no node '{}' in the cluster", Printable(id)));
}

// The record of a map: fields that this program does not know come along.
v1::ClusterMapRecord RecordOf(const ClusterMap& map) {
  v1::ClusterMapRecord record;
  TILEKV_CHECK(record.ParseFromString(map.bytes()));
  return record;
}

v1::ClusterMapNode* FindRecord(v1::ClusterMapRecord& record, std::string_view id) {
  for (v1::ClusterMapNode& node : *record.mutable_nodes()) {
    if (node.id() == id) return &node;
  }
  return nullptr;
}

// The map after `map` with the content of `record`.
absl::StatusOr<ClusterMap> Next(const ClusterMap& map, v1::ClusterMapRecord record) {
  if (record.SerializeAsString() == RecordOf(map).SerializeAsString()) return map;
  record.set_version(map.version().Next().value);
  TILEKV_ASSIGN_OR_RETURN(ClusterMap next, ClusterMap::FromRecord(record));
  // The hash is of exactly what owners are a function of.
  if (next.placement_version().hash == map.placement_version().hash) return next;
  record.set_placement_version(record.version());
  return ClusterMap::FromRecord(record);
}

absl::StatusOr<ClusterMap> WithState(const ClusterMap& map, std::string_view id,
                                     v1::NodeState state, bool automatic_out) {
  v1::ClusterMapRecord record = RecordOf(map);
  v1::ClusterMapNode* node = FindRecord(record, id);
  if (node == nullptr) return NoNode(id);
  node->set_state(state);
  node->set_automatic_out(automatic_out);
  return Next(map, std::move(record));
}

void FillNode(const MapNode& from, v1::ClusterMapNode& to) {
  to.set_id(from.id);
  to.set_store_uuid(from.store_uuid);
  to.set_host(from.host);
  to.set_zone(from.zone);
  to.set_weight_milli(from.weight_milli);
  to.set_address(from.address);
  to.set_state(v1::NODE_STATE_IN);
  to.set_maintenance(from.maintenance);
}

}  // namespace

absl::StatusOr<ClusterMap> AddNode(const ClusterMap& map, const MapNode& node) {
  if (map.Find(node.id) != nullptr) {
    return Refused(fmt::format("there is a node '{}' already: give the new one another name",
                               Printable(node.id)));
  }
  if (const MapNode* other = map.FindStore(node.store_uuid); other != nullptr) {
    return Refused(fmt::format("the store {} is that of node '{}' already",
                               Printable(node.store_uuid), Printable(other->id)));
  }
  v1::ClusterMapRecord record = RecordOf(map);
  FillNode(node, *record.add_nodes());
  std::sort(
      record.mutable_nodes()->begin(), record.mutable_nodes()->end(),
      [](const v1::ClusterMapNode& a, const v1::ClusterMapNode& b) { return a.id() < b.id(); });
  return Next(map, std::move(record));
}

absl::StatusOr<ClusterMap> DrainNode(const ClusterMap& map, std::string_view id) {
  const MapNode* node = map.Find(id);
  if (node == nullptr) return NoNode(id);
  if (node->state == NodeState::kIn && map.CountIn() <= map.settings().replication) {
    return Refused(
        fmt::format("draining node '{}' would leave {} nodes for a replication of {}: add a node "
                    "first, or lower "
                    "the replication",
                    Printable(id), map.CountIn() - 1, map.settings().replication));
  }
  return WithState(map, id, v1::NODE_STATE_DRAINING, false);
}

absl::StatusOr<ClusterMap> UndrainNode(const ClusterMap& map, std::string_view id) {
  return WithState(map, id, v1::NODE_STATE_IN, false);
}

absl::StatusOr<ClusterMap> RemoveNode(const ClusterMap& map, std::string_view id) {
  const MapNode* node = map.Find(id);
  if (node == nullptr) return NoNode(id);
  if (node->state == NodeState::kIn) {
    return Refused(fmt::format("node '{}' is in: drain it before it is removed", Printable(id)));
  }
  v1::ClusterMapRecord record = RecordOf(map);
  record.mutable_nodes()->DeleteSubrange(static_cast<int>(node - map.nodes().data()), 1);
  return Next(map, std::move(record));
}

absl::StatusOr<ClusterMap> ChangeNode(const ClusterMap& map, std::string_view id,
                                      const NodeChange& change) {
  v1::ClusterMapRecord record = RecordOf(map);
  v1::ClusterMapNode* node = FindRecord(record, id);
  if (node == nullptr) return NoNode(id);
  if (change.store_uuid.has_value()) node->set_store_uuid(*change.store_uuid);
  if (change.host.has_value()) node->set_host(*change.host);
  if (change.zone.has_value()) node->set_zone(*change.zone);
  if (change.weight_milli.has_value()) node->set_weight_milli(*change.weight_milli);
  if (change.address.has_value()) node->set_address(*change.address);
  if (change.maintenance.has_value()) node->set_maintenance(*change.maintenance);
  return Next(map, std::move(record));
}

absl::StatusOr<ClusterMap> ChangeSettings(const ClusterMap& map, const SettingsChange& change) {
  v1::ClusterMapRecord record = RecordOf(map);
  if (change.replication.has_value()) record.set_replication(*change.replication);
  if (change.min_copies.has_value()) record.set_min_copies(*change.min_copies);
  if (change.out_after_s.has_value()) record.set_out_after_seconds(*change.out_after_s);
  if (change.repair_bytes_per_second.has_value()) {
    record.set_repair_bytes_per_second(*change.repair_bytes_per_second);
  }
  return Next(map, std::move(record));
}

AutomaticOut MayMarkOut(const ClusterMap& map, std::string_view id, const NodeIds& missing) {
  const MapNode* node = map.Find(id);
  if (node == nullptr || node->state != NodeState::kIn) return AutomaticOut::kNotIn;
  if (node->maintenance) return AutomaticOut::kMaintenance;
  const size_t away =
      std::count_if(map.nodes().begin(), map.nodes().end(), [&](const MapNode& other) {
        return other.id == id || other.automatic_out || missing.contains(other.id);
      });
  const size_t may_be_away = std::max<size_t>(1, map.nodes().size() * kAutomaticOutPercent / 100);
  if (away > may_be_away) return AutomaticOut::kTooManyMissing;
  if (map.CountIn() <= map.settings().replication) return AutomaticOut::kTooFewStay;
  return AutomaticOut::kAllowed;
}

std::string AutomaticOutText(AutomaticOut why) {
  switch (why) {
    case AutomaticOut::kAllowed:
      return "it may be marked out";
    case AutomaticOut::kNotIn:
      return "it is not in";
    case AutomaticOut::kMaintenance:
      return "it is under maintenance";
    case AutomaticOut::kTooManyMissing:
      return fmt::format("more than one node and {} % of the map would be missing or out by itself",
                         kAutomaticOutPercent);
    case AutomaticOut::kTooFewStay:
      return "fewer nodes than the replication would stay in";
  }
  return "unknown";
}

absl::StatusOr<ClusterMap> MarkOutAutomatically(const ClusterMap& map, std::string_view id,
                                                const NodeIds& missing) {
  if (map.Find(id) == nullptr) return NoNode(id);
  if (const AutomaticOut why = MayMarkOut(map, id, missing); why != AutomaticOut::kAllowed) {
    return Refused(fmt::format("node '{}' is not marked out by itself: {}", Printable(id),
                               AutomaticOutText(why)));
  }
  return WithState(map, id, v1::NODE_STATE_OUT, true);
}

absl::StatusOr<ClusterMap> MarkInAutomatically(const ClusterMap& map, std::string_view id) {
  const MapNode* node = map.Find(id);
  if (node == nullptr) return NoNode(id);
  if (!node->automatic_out) return map;
  return WithState(map, id, v1::NODE_STATE_IN, false);
}

}  // namespace tilekv
