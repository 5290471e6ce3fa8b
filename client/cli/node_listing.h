// How nodes of a cluster are shown.
#pragma once

#include "absl/status/status.h"
#include "client/cli/output.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// A node of the map and what is known of it.
struct ListedNode {
  const v1::ClusterMapNode* node = nullptr;
  const v1::ClusterNodeStatus* status = nullptr;
};
// In the order of the map.
std::vector<ListedNode> NodesOf(const v1::ClusterStatusResponse& status);

Json NodeJson(const ListedNode& listed);
absl::Status PrintNodes(Output& out, const v1::ClusterStatusResponse& status);
// One with everything that is known.
absl::Status PrintNode(Output& out, const ListedNode& listed);

// "in", "draining", "out", "out by itself".
std::string StateText(const v1::ClusterMapNode& node);

}  // namespace tilekv
