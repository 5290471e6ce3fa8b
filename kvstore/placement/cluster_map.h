// The cluster map: which nodes there are, where they stand and what the cluster has agreed on. One
// record of the catalog (docs/formats.md, "Cluster map"), changed only by comparing its revision.
//
// A ClusterMap is immutable and valid: whoever has one need not check it. Copies are deep; share it
// by std::shared_ptr<const ClusterMap>. Changes are in map_edits.h, owners in placement.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/defaults.h"
#include "kvstore/placement/map_version.h"

namespace tilekv::v1 {
class ClusterMapRecord;
}

namespace tilekv {

// What this program knows of the record. A map with a higher level is refused.
inline constexpr uint32_t kFeatureLevel = 1;
inline constexpr uint32_t kWeightOne_milli = 1'000;  // a node's weight, where none is given

enum class NodeState : uint8_t {
  kIn = 1,        // owns objects
  kDraining = 2,  // owns none and gives away what it holds
  kOut = 3,       // owns none and is taken to be away
};
// "in", "draining", "out".
std::string_view NodeStateName(NodeState state);

struct MapNode {
  std::string id;          // 1 to kMaxNodeIdBytes of [A-Za-z0-9._-]
  std::string store_uuid;  // 32 hexadecimal digits in lower case
  std::string host;
  std::string zone;  // may be empty, which is a zone like any other
  uint32_t weight_milli = kWeightOne_milli;
  std::string address;
  NodeState state = NodeState::kIn;
  bool automatic_out = false;  // only with kOut
  bool maintenance = false;

  friend bool operator==(const MapNode&, const MapNode&) = default;
};

struct ClusterSettings {
  uint32_t replication = kDefaultReplication;
  uint32_t min_copies = kDefaultMinCopies;
  uint64_t max_object_bytes = kDefaultMaxObjectBytes;
  uint32_t partition_bits = kDefaultPartitionBits;
  int64_t out_after_s = kDefaultOutAfter_s;
  uint64_t repair_bytes_per_second = kDefaultRepairBytesPerSecond;

  friend bool operator==(const ClusterSettings&, const ClusterSettings&) = default;
};

class ClusterMap {
 public:
  // The first map of a cluster, without nodes. The uuid has 32 hexadecimal digits in lower case,
  // the name is like a node's id. INVALID_ARGUMENT says what is out of range.
  static absl::StatusOr<ClusterMap> Make(uint16_t epoch, std::string_view cluster_uuid,
                                         std::string_view cluster_name,
                                         const ClusterSettings& settings);
  // From the catalog. DATA_LOSS where the record is not a valid map, STORE_MISMATCH where a later
  // program wrote it.
  static absl::StatusOr<ClusterMap> Parse(std::string_view bytes);
  // INVALID_ARGUMENT where the record is not a valid map.
  static absl::StatusOr<ClusterMap> FromRecord(const v1::ClusterMapRecord& record);

  // The record as it stands in the catalog, fields that this program does not know included.
  const std::string& bytes() const { return bytes_; }
  const std::array<uint8_t, 32>& hash() const { return hash_; }  // BLAKE3 of bytes()
  MapVersion version() const { return version_; }
  PlacementVersion placement_version() const { return placement_version_; }
  const std::string& cluster_uuid() const { return cluster_uuid_; }
  const std::string& cluster_name() const { return cluster_name_; }
  uint32_t feature_level() const { return feature_level_; }
  const ClusterSettings& settings() const { return settings_; }

  // Ascending by id. A node's index in here names it in Placement, for this map.
  const std::vector<MapNode>& nodes() const { return nodes_; }
  // Null where there is no node of this name.
  const MapNode* Find(std::string_view id) const;
  // Null where no node has this store.
  const MapNode* FindStore(std::string_view store_uuid) const;
  size_t CountIn() const;  // nodes whose state is `in`

  // The same map: equal version and equal bytes.
  friend bool operator==(const ClusterMap& a, const ClusterMap& b) {
    return a.version_ == b.version_ && a.hash_ == b.hash_;
  }

 private:
  ClusterMap() = default;

  std::string bytes_;
  std::array<uint8_t, 32> hash_{};
  MapVersion version_;
  PlacementVersion placement_version_;
  std::string cluster_uuid_;
  std::string cluster_name_;
  uint32_t feature_level_ = 0;
  ClusterSettings settings_;
  std::vector<MapNode> nodes_;
};

// "2", "0.5", "1.25": thousandths. INVALID_ARGUMENT names the range.
absl::StatusOr<uint32_t> ParseWeight(std::string_view text);
// The shortest text that ParseWeight gives back.
std::string FormatWeight(uint32_t weight_milli);

}  // namespace tilekv
