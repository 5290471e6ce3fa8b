// Link in a cluster: which objects are held by enough stores, from now on with this revision.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/cluster/cluster_parts.h"

namespace tilekv {

// 1. Asks the first `replication` nodes of each object's order, each node once for all of its
//    objects. For each that does not answer the next one is asked; for an object that none of them
//    has, all others that are likely to answer. A node that is late is as one that does not answer,
//    once min_copies nodes have.
// 2. Where stores have it, but fewer than `replication`, makes copies from one of them at the nodes
//    that lack it, then at further ones. Those without which the minimum is not reached are always
//    made; the others only for so long that a caller does not wait in vain, since repair makes them
//    too.
//
// Results in the order of `refs`. `present`: at least min_copies stores hold it now. `trusted`: as
// many of them have looked at their copies lately, or just wrote them. SESSION_LOST where a node
// says so; other errors of a node are as if it had not answered.
absl::StatusOr<std::vector<LinkResult>> LinkInCluster(ClusterParts& parts, Domain domain,
                                                      std::span<const ObjectRef> refs,
                                                      Revision session_rev);

}  // namespace tilekv
