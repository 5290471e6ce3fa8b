// How a cluster begins, and how a node comes into its map. Blocking.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/base/random.h"
#include "kvstore/cluster/map_store.h"
#include "kvstore/placement/cluster_map.h"

namespace tilekv {

// Writes the first map. STORE_MISMATCH where the catalog has one; INVALID_ARGUMENT for settings
// that no cluster can have.
absl::StatusOr<ClusterMap> InitCluster(MapStore& maps, const std::string& name,
                                       const ClusterSettings& settings, Random& random);

// What a node says of itself when it starts.
struct JoiningNode {
  std::string id;          // empty: that of its store in the map, or one made of host and store
  std::string store_uuid;  // of its data directory
  std::string address;     // HOST:PORT
  // Where it stands, from its first start on: later the map says so ('tilekv node set').
  std::string host;
  std::string zone;
  uint32_t weight_milli = kWeightOne_milli;
};

// Its id in the map, whether it is there already or not. INVALID_ARGUMENT where the id is another
// store's or the store is there under another id, with what to do instead.
absl::StatusOr<std::string> IdentifyNode(const ClusterMap& map, const JoiningNode& node);
// Into the map, or its new address. A state that the map has for it stays.
absl::StatusOr<StoredMap> JoinCluster(MapStore& maps, const JoiningNode& node);

}  // namespace tilekv
