#include "kvstore/cluster/cluster_join.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/placement/map_edits.h"

namespace tilekv {
namespace {

constexpr size_t kUuidBytes = 16;
constexpr size_t kIdDigits = 6;  // of the store's uuid, so that several nodes of a host differ

// "HOST-3fa9c1", of characters that an id may have.
std::string MakeId(const JoiningNode& node) {
  std::string host = node.host.substr(0, node.host.find('.'));
  std::erase_if(host, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  host.resize(std::min(host.size(), kMaxNodeIdBytes - kIdDigits - 1));
  return fmt::format("{}-{}", host.empty() ? "node" : host, node.store_uuid.substr(0, kIdDigits));
}

absl::Status OtherStore(const MapNode& known, const JoiningNode& node) {
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("node '{0}' of the cluster has the store {1}, but the data directory is the "
                  "store {2}. Give the node its own directory, or another --node-id. If the disk "
                  "of '{0}' is gone for good and this one takes its place: tilekv node set {0} "
                  "store={2}",
                  Printable(known.id), known.store_uuid, node.store_uuid));
}

}  // namespace

absl::StatusOr<ClusterMap> InitCluster(MapStore& maps, const std::string& name,
                                       const ClusterSettings& settings, Random& random) {
  const std::string uuid = HexEncode(AsBytes(random.Bytes(kUuidBytes)));
  TILEKV_ASSIGN_OR_RETURN(ClusterMap map, ClusterMap::Make(maps.epoch(), uuid, name, settings));
  TILEKV_ASSIGN_OR_RETURN(bool created, maps.Create(map));
  if (created) return map;
  return MakeError(Reason::kStoreMismatch,
                   fmt::format("there is a cluster '{}' already; 'tilekv cluster status' shows it, "
                               "'tilekv cluster set' changes its settings",
                               Printable(name)));
}

absl::StatusOr<std::string> IdentifyNode(const ClusterMap& map, const JoiningNode& node) {
  if (const MapNode* known = map.FindStore(node.store_uuid); known != nullptr) {
    if (node.id.empty() || node.id == known->id) return known->id;
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("the data directory is that of node '{0}' of the cluster, and "
                                 "nodes are never renamed: leave --node-id out, or pass '{0}'",
                                 Printable(known->id)));
  }
  const std::string id = node.id.empty() ? MakeId(node) : node.id;
  if (const MapNode* known = map.Find(id); known != nullptr) return OtherStore(*known, node);
  return id;
}

absl::StatusOr<StoredMap> JoinCluster(MapStore& maps, const JoiningNode& node) {
  TILEKV_ASSIGN_OR_RETURN(MapStore::Edited edited,
                          maps.Edit([&](const ClusterMap& map) -> absl::StatusOr<ClusterMap> {
                            TILEKV_ASSIGN_OR_RETURN(std::string id, IdentifyNode(map, node));
                            if (map.Find(id) != nullptr)
                              return ChangeNode(map, id, {.address = node.address});
                            return AddNode(map, {.id = std::move(id),
                                                 .store_uuid = node.store_uuid,
                                                 .host = node.host,
                                                 .zone = node.zone,
                                                 .weight_milli = node.weight_milli,
                                                 .address = node.address});
                          }));
  return edited.stored;
}

}  // namespace tilekv
