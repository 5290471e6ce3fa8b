// Maps and nodes for tests.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/placement/cluster_map.h"
#include "kvstore/placement/map_edits.h"

namespace tilekv {

// 32 hexadecimal digits that differ for each text.
inline std::string TestUuid(std::string_view text) {
  return HexEncode(Bytes(Blake3(AsBytes(text))).first(16));
}

// In, on a host of its own.
inline MapNode TestNode(std::string_view id, std::string_view zone = "") {
  const std::string name(id);
  return {.id = name,
          .store_uuid = TestUuid(id),
          .host = "host-" + name,
          .zone = std::string(zone),
          .address = name + ":7070"};
}

// A valid map with these nodes in the states that they name, made by the edits that a cluster
// makes; whoever asks for another one stops the test.
inline std::shared_ptr<const ClusterMap> TestMap(const std::vector<MapNode>& nodes,
                                                 const ClusterSettings& settings = {}) {
  // Nodes may be drained whatever the replication: it comes last.
  ClusterSettings first = settings;
  first.replication = first.min_copies = 1;
  auto map = ClusterMap::Make(1, TestUuid("cluster"), "test", first);
  const auto next = [&map](absl::StatusOr<ClusterMap> edited) {
    TILEKV_CHECK(edited.ok());
    map = std::move(edited);
  };
  TILEKV_CHECK(map.ok());
  for (const MapNode& node : nodes) next(AddNode(*map, node));
  for (const MapNode& node : nodes) {
    if (node.state == NodeState::kDraining) next(DrainNode(*map, node.id));
    if (node.state == NodeState::kOut) next(MarkOutAutomatically(*map, node.id, {}));
  }
  next(ChangeSettings(*map,
                      {.replication = settings.replication, .min_copies = settings.min_copies}));
  return std::make_shared<const ClusterMap>(*std::move(map));
}

}  // namespace tilekv
