// The check of a cluster: nodes and map, what names need against what nodes hold, copies of each
// object.
//
// 1. When it is deep, every node reads its own copies first, so that what is damaged is out of use
//    by the time copies are counted.
// 2. Names are walked at one state of the catalog, through trees to everything that they need: a
//    sorted list (live_list.h), whose memory is bounded.
// 3. All nodes' rows are merged in order of id and compared with that list.
// 4. What a name needs and no node gives out is looked for again, at a later state of the catalog
//    and through the cluster, and only then told, with the name: meanwhile the name may have been
//    deleted and its objects collected, or written again.
//
// Nothing is changed but the state of copies that a deep check has found damaged.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/node/node_context.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// `node.survey` is set. Errors are of the catalog and of this node; what others do not answer is
// part of the response.
absl::StatusOr<v1::ClusterCheckResponse> RunClusterCheck(NodeContext& node,
                                                         const v1::ClusterCheckRequest& request,
                                                         const CallContext& context);

// Whether everything that names need has all its copies without this node, which is away.
// INVALID_ARGUMENT says what has not, or who else did not answer.
absl::Status CheckNotNeeded(NodeContext& node, const std::string& id, const CallContext& context);

}  // namespace tilekv
