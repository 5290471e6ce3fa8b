// Where objects belong: the partition of an id, the order of all nodes for a partition, and its
// owners. A pure function of the cluster map (docs/formats.md, "Placement").
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kvstore/base/defaults.h"
#include "kvstore/object/object_id.h"
#include "kvstore/placement/cluster_map.h"

namespace tilekv {

// Index of a node in ClusterMap::nodes(), of one map.
using NodeIndex = uint16_t;

struct Owners {
  // What the last owner had to be for so many to be found.
  enum class Pass : uint8_t {
    kNone,     // there is no owner
    kNewZone,  // all owners are in zones of their own
    kNewHost,  // zones are shared, hosts are not
    kAny,      // hosts are shared
  };

  std::array<NodeIndex, kMaxReplication> nodes{};  // the first `count`, in the order of choice
  uint8_t count = 0;
  Pass pass = Pass::kNone;

  const NodeIndex* begin() const { return nodes.data(); }
  const NodeIndex* end() const { return nodes.data() + count; }
  bool Contains(NodeIndex node) const;
  friend bool operator==(const Owners&, const Owners&) = default;
};

// For one map, shared by whoever works with that map. Thread-safe without locks; owners are
// computed when first asked for and kept (about 20 bytes a partition), orders are computed each
// time (about 0.2 us a node).
class Placement {
 public:
  explicit Placement(std::shared_ptr<const ClusterMap> map);

  const ClusterMap& map() const { return *map_; }
  uint32_t partitions() const { return uint32_t{1} << map_->settings().partition_bits; }
  // The top bits of the id.
  uint32_t PartitionOf(const ObjectId& id) const;
  // The greatest id below those of the partition, behind which a scan of it begins; none: it is the
  // first one. A partition is one range of ids.
  std::optional<ObjectId> BeforePartition(uint32_t partition) const;

  // The first R nodes that are `in`, over zones, then hosts, then any; fewer where fewer are in.
  Owners OwnersOf(uint32_t partition) const;
  // False where fewer than R nodes are in: copies on nodes that do not own are then never dropped.
  bool HasAllOwners(const Owners& owners) const {
    return owners.count == map_->settings().replication;
  }
  // Every node of the map, in any state, by rank.
  std::vector<NodeIndex> OrderOf(uint32_t partition) const;
  // The owners in the order of choice, then every other node by rank: where a copy is put that an
  // owner does not take, and where one is looked for.
  std::vector<NodeIndex> OwnersThenOthers(uint32_t partition) const;

 private:
  // Written once by whoever takes it from kEmpty to kBusy; read once it is kReady.
  struct Slot {
    enum State : uint8_t { kEmpty, kBusy, kReady };
    std::atomic<uint8_t> state{kEmpty};
    Owners owners;
  };

  Owners Choose(uint32_t partition) const;

  const std::shared_ptr<const ClusterMap> map_;
  const std::vector<uint64_t> seeds_;  // of each node
  const std::unique_ptr<Slot[]> slots_;
};

}  // namespace tilekv
