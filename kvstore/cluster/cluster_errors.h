// What the nodes' answers come to, in words, and what the kinds of them mean.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/cluster/cluster_parts.h"
#include "kvstore/cluster/copy_candidates.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

using NodeFailures = std::vector<std::pair<std::string, absl::Status>>;  // node id, why

// The peer, or NODE_UNAVAILABLE where no node of that id has an address.
absl::StatusOr<std::shared_ptr<Peer>> FindPeer(Peers& peers, std::string_view node_id);

// What is wrong is the content that was sent, at whatever node it was noticed.
bool IsOfContent(const absl::Status& status);
// The bytes that a copy gave do not hash to its id. Not: they could not be read.
bool IsDamagedCopy(const absl::Status& status);

struct CopyFigures {
  size_t stores = 0;
  size_t min_copies = 0;
  size_t replication = 0;
  size_t nodes = 0;  // that could be asked
};
// TOO_FEW_COPIES with the figures and what the nodes said. SESSION_LOST where one of them said
// that, and what they all said where that says more: STORE_FULL, OVERLOADED, CATALOG_REWOUND, what
// is wrong with the content.
absl::Status TooFewCopies(const ObjectRef& ref, const CopyFigures& figures,
                          const NodeFailures& failures);
// NODE_UNAVAILABLE: no copy was found, and these nodes did not answer.
absl::Status CopyNotFound(const ObjectId& id, const NodeFailures& unanswered);

// Tells the node, in the executor; what comes of it is the node's own affair.
void ReportDamagedCopy(ClusterParts& parts, const CopyCandidate& holder, Domain domain,
                       const ObjectId& id);

}  // namespace tilekv
