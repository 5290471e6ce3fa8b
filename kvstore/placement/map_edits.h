// Changes of the cluster map. Each is a pure function: from a map to the next one, whose version is
// one higher and whose placement version is raised only where owners may differ (a node comes or
// goes; its state, weight, host or zone changes; the replication changes). A change that changes
// nothing gives back an equal map: there is nothing to write then.
//
// Whoever writes the result to the catalog compares the revision at which the map was read, and
// begins again with the newer map where that fails.
//
// Errors: NOT_FOUND for a node that is not in the map; INVALID_ARGUMENT where a value is out of
// range or the change is refused, with what to do instead.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/placement/cluster_map.h"

namespace tilekv {

// The node comes in, whatever its state says. Refused where its id or its store is there already.
absl::StatusOr<ClusterMap> AddNode(const ClusterMap& map, const MapNode& node);
// The node owns nothing any more and gives its copies away. Refused where fewer than R nodes would
// stay in: their copies could not all be made elsewhere.
absl::StatusOr<ClusterMap> DrainNode(const ClusterMap& map, std::string_view id);
// Back in, from draining or out.
absl::StatusOr<ClusterMap> UndrainNode(const ClusterMap& map, std::string_view id);
// Forgets the node. Refused while it is in; that it holds nothing, or that every partition has R
// copies without it, is for the caller to know.
absl::StatusOr<ClusterMap> RemoveNode(const ClusterMap& map, std::string_view id);

// What is not set stays as it is.
struct NodeChange {
  std::optional<std::string> store_uuid;
  std::optional<std::string> host;
  std::optional<std::string> zone;
  std::optional<uint32_t> weight_milli;
  std::optional<std::string> address;
  std::optional<bool> maintenance;
};
absl::StatusOr<ClusterMap> ChangeNode(const ClusterMap& map, std::string_view id,
                                      const NodeChange& change);

struct SettingsChange {
  std::optional<uint32_t> replication;
  std::optional<uint32_t> min_copies;
  std::optional<int64_t> out_after_s;
  std::optional<uint64_t> repair_bytes_per_second;
};
absl::StatusOr<ClusterMap> ChangeSettings(const ClusterMap& map, const SettingsChange& change);

using NodeIds = std::set<std::string, std::less<>>;

// Whether a node that has been missing for long enough may be marked out without anyone asking.
enum class AutomaticOut {
  kAllowed,
  kNotIn,           // it is not in, so that nothing would change
  kMaintenance,     // it is meant to be away
  kTooManyMissing,  // with those missing or out by themselves, more than max(1, 30 % of the map)
  kTooFewStay,      // fewer than R nodes would stay in
};
// "it is under maintenance" and so on.
std::string AutomaticOutText(AutomaticOut why);
// `missing` are all nodes that do not answer now, this one included or not.
AutomaticOut MayMarkOut(const ClusterMap& map, std::string_view id, const NodeIds& missing);
// Refused unless MayMarkOut allows it.
absl::StatusOr<ClusterMap> MarkOutAutomatically(const ClusterMap& map, std::string_view id,
                                                const NodeIds& missing);
// Undoes it; a node that is out for another reason, or not out, stays as it is.
absl::StatusOr<ClusterMap> MarkInAutomatically(const ClusterMap& map, std::string_view id);

}  // namespace tilekv
