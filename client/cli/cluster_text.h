// Settings of a cluster and properties of a node as people write them: KEY=VALUE. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/output.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

struct ClusterSetting {
  std::string key;   // "out-after"
  std::string text;  // for people: "10m"
  Json json;         // for programs: 600
  bool may_change = false;
};
// Of a map, in the order in which they are shown.
std::vector<ClusterSetting> ClusterSettingsOf(const v1::ClusterMapRecord& map);

// INVALID_ARGUMENT names what is wrong and what may be set.
absl::StatusOr<v1::ClusterSettingsChange> ParseSettingsChange(
    const std::vector<std::string>& words);
absl::StatusOr<v1::ClusterNodeChange> ParseNodeChange(const std::string& id,
                                                      const std::vector<std::string>& words);

// "90", "90s", "10m", "2h", "3d": seconds.
absl::StatusOr<int64_t> ParseSeconds(std::string_view text);
// The shortest that ParseSeconds gives back: "10m".
std::string FormatSeconds(int64_t seconds);

}  // namespace tilekv
