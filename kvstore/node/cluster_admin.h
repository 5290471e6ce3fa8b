// What an administrator asks a node about its cluster. kvstore/cluster answers.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// Thread-safe and blocking.
class ClusterAdmin {
 public:
  virtual ~ClusterAdmin() = default;
  virtual const std::string& cluster_name() const = 0;
  virtual const std::string& node_id() const = 0;  // of this node

  // STORE_FULL while the catalog has too little room left for new names. Does not block.
  virtual absl::Status CheckRoomForNames() = 0;

  // From what this node knows: answered while the catalog is away too, and says so.
  virtual absl::StatusOr<v1::ClusterStatusResponse> Status(const CallContext& context) = 0;
  // NOT_FOUND for a node that is not in the map; INVALID_ARGUMENT where the change is refused, with
  // what to do instead; NODE_UNAVAILABLE, OUTCOME_UNKNOWN, CATALOG_REWOUND of the catalog.
  virtual absl::StatusOr<v1::ChangeClusterResponse> Change(const v1::ChangeClusterRequest& request,
                                                           const CallContext& context) = 0;
};

}  // namespace tilekv
