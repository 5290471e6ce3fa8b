// ClusterAdmin on what a node knows of its cluster (cluster_state.h) and the map in the catalog.
#pragma once

#include <string>

#include "kvstore/cluster/catalog_room.h"
#include "kvstore/cluster/cluster_state.h"
#include "kvstore/cluster/map_store.h"
#include "kvstore/node/cluster_admin.h"

namespace tilekv {

class ClusterOperator : public ClusterAdmin {
 public:
  // All outlive the operator.
  ClusterOperator(MapStore& maps, ClusterState& state, CatalogRoom& room, Clock& clock);

  const std::string& cluster_name() const override { return cluster_name_; }
  const std::string& node_id() const override { return state_.node_id(); }
  absl::Status CheckRoomForNames() override { return room_.Check(); }
  absl::StatusOr<v1::ClusterStatusResponse> Status(const CallContext& context) override;
  absl::StatusOr<v1::ChangeClusterResponse> Change(const v1::ChangeClusterRequest& request,
                                                   const CallContext& context) override;

 private:
  absl::StatusOr<ClusterMap> Edit(const ClusterMap& map, const v1::ChangeClusterRequest& request);
  // That it holds nothing, as far as it says so itself.
  absl::Status CheckRemovable(const ClusterMap& map, const std::string& id, bool lost);
  absl::Status CheckAway(const std::string& id);

  MapStore& maps_;
  ClusterState& state_;
  CatalogRoom& room_;
  Clock& clock_;
  const std::string cluster_name_;
};

}  // namespace tilekv
