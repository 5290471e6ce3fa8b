// Names of an etcd's members, and of a cluster in it. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tilekv {

struct EtcdEndpoints {
  std::vector<std::string> targets;  // HOST:PORT
  bool tls = false;
  std::string text;  // all as they were given, with commas, for messages
};

// INVALID_ARGUMENT: none, not an address, http and https mixed.
absl::StatusOr<EtcdEndpoints> ParseEtcdEndpoints(const std::vector<std::string>& endpoints);
// The same from one string with commas, as a flag has it.
std::vector<std::string> SplitEndpoints(std::string_view text);

// 1 to 64 of [A-Za-z0-9._-].
absl::Status CheckClusterName(std::string_view name);
// All keys of a cluster begin so.
std::string ClusterPrefix(std::string_view name);

}  // namespace tilekv
