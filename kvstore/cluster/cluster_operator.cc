#include "kvstore/cluster/cluster_operator.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/placement/map_edits.h"

namespace tilekv {
namespace {

constexpr int64_t kNanosPerSecond = 1'000'000'000;

template <typename To, typename From>
std::optional<To> IfSet(bool has, const From& value) {
  return has ? std::optional<To>(value) : std::nullopt;
}

SettingsChange ToChange(const v1::ClusterSettingsChange& change) {
  return {.replication = IfSet<uint32_t>(change.has_replication(), change.replication()),
          .min_copies = IfSet<uint32_t>(change.has_min_copies(), change.min_copies()),
          .out_after_s = IfSet<int64_t>(change.has_out_after_seconds(), change.out_after_seconds()),
          .repair_bytes_per_second = IfSet<uint64_t>(change.has_repair_bytes_per_second(),
                                                     change.repair_bytes_per_second())};
}

NodeChange ToChange(const v1::ClusterNodeChange& change) {
  return {.store_uuid = IfSet<std::string>(change.has_store_uuid(), change.store_uuid()),
          .host = IfSet<std::string>(change.has_host(), change.host()),
          .zone = IfSet<std::string>(change.has_zone(), change.zone()),
          .weight_milli = IfSet<uint32_t>(change.has_weight_milli(), change.weight_milli()),
          .address = std::nullopt,
          .maintenance = IfSet<bool>(change.has_maintenance(), change.maintenance())};
}

}  // namespace

ClusterOperator::ClusterOperator(MapStore& maps, ClusterState& state, CatalogRoom& room,
                                 Clock& clock)
    : maps_(maps),
      state_(state),
      room_(room),
      clock_(clock),
      cluster_name_(state.picture()->map().cluster_name()) {}

absl::StatusOr<v1::ClusterStatusResponse> ClusterOperator::Status(const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  const std::shared_ptr<const ClusterPicture> picture = state_.picture();
  v1::ClusterStatusResponse response;
  TILEKV_CHECK(response.mutable_map()->ParseFromString(picture->map().bytes()));
  for (const MapNode& node : picture->map().nodes()) {
    v1::ClusterNodeStatus& status = *response.add_nodes();
    status.set_id(node.id);
    if (auto found = picture->registered.find(node.id); found != picture->registered.end()) {
      status.set_registered(true);
      *status.mutable_registration() = found->second;
    }
    if (auto missing = picture->missing_since_nanos.find(node.id);
        missing != picture->missing_since_nanos.end()) {
      status.set_missing_seconds((clock_.MonotonicNanos() - missing->second) / kNanosPerSecond);
    }
    for (const MembershipDecision::Held& held : picture->held) {
      if (held.id == node.id) status.set_held(AutomaticOutText(held.why));
    }
  }
  response.set_answered_by(node_id());
  response.set_line_id(HexEncode(AsBytes(maps_.line_id())));
  v1::CatalogStatus& catalog = *response.mutable_catalog();
  catalog.set_quota_bytes(room_.quota_bytes());
  absl::StatusOr<CatalogFigures> figures = room_.figures();
  if (figures.ok()) {
    catalog.set_version(figures->version);
    catalog.set_database_bytes(figures->database_bytes);
    catalog.set_in_use_bytes(figures->in_use_bytes);
  } else {
    catalog.set_error(ErrorText(figures.status()));
  }
  if (!picture->catalog_answers && catalog.error().empty()) {
    catalog.set_error("the catalog does not answer this node");
  }
  return response;
}

absl::Status ClusterOperator::CheckRemovable(const ClusterMap& map, const std::string& id,
                                             bool lost) {
  const MapNode* node = map.Find(id);
  if (node == nullptr || node->state == NodeState::kIn)
    return absl::OkStatus();  // the edit says it
  const std::shared_ptr<const ClusterPicture> picture = state_.picture();
  const auto found = picture->registered.find(id);
  if (lost && found != picture->registered.end()) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("node '{}' is here: it gives its copies away itself, and is then "
                                 "removed without --lost. One that was killed counts as here for "
                                 "{} s more",
                                 Printable(id), kNodeLease_s));
  }
  if (lost) return absl::OkStatus();  // whoever asks has looked for what only it may hold
  if (found == picture->registered.end() || found->second.store_uuid() != node->store_uuid) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("node '{}' does not say what it holds: start it, so that it can "
                                 "give its copies away first. One that is gone for good is "
                                 "removed with --lost",
                                 Printable(id)));
  }
  if (found->second.objects() == 0) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("node '{}' holds {} objects: it is removed when it has given them "
                               "away",
                               Printable(id), found->second.objects()));
}

absl::Status ClusterOperator::CheckAway(const std::string& id) {
  const std::shared_ptr<const ClusterPicture> picture = state_.picture();
  if (!picture->registered.contains(id)) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("node '{}' is here, with its disk: its store is changed while it is "
                               "stopped. One that was killed counts as here for {} s more",
                               Printable(id), kNodeLease_s));
}

absl::StatusOr<ClusterMap> ClusterOperator::Edit(const ClusterMap& map,
                                                 const v1::ChangeClusterRequest& request) {
  switch (request.change_case()) {
    case v1::ChangeClusterRequest::kSettings:
      return ChangeSettings(map, ToChange(request.settings()));
    case v1::ChangeClusterRequest::kDrain:
      return DrainNode(map, request.drain());
    case v1::ChangeClusterRequest::kUndrain:
      return UndrainNode(map, request.undrain());
    case v1::ChangeClusterRequest::kRemove:
      TILEKV_RETURN_IF_ERROR(CheckRemovable(map, request.remove(), request.lost()));
      return RemoveNode(map, request.remove());
    case v1::ChangeClusterRequest::kNode:
      if (request.node().has_store_uuid()) {
        TILEKV_RETURN_IF_ERROR(CheckAway(request.node().id()));
      }
      return ChangeNode(map, request.node().id(), ToChange(request.node()));
    case v1::ChangeClusterRequest::CHANGE_NOT_SET:
      break;
  }
  return MakeError(Reason::kInvalidArgument, "no change of the cluster map is asked for");
}

absl::StatusOr<v1::ChangeClusterResponse> ClusterOperator::Change(
    const v1::ChangeClusterRequest& request, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  TILEKV_ASSIGN_OR_RETURN(MapStore::Edited edited,
                          maps_.Edit([&](const ClusterMap& map) { return Edit(map, request); }));
  // This node need not wait for the watch.
  state_.OnMap(edited.stored);
  v1::ChangeClusterResponse response;
  response.set_changed(edited.changed);
  response.set_version(edited.stored.map->version().value);
  return response;
}

}  // namespace tilekv
