// Reading in a cluster: an open object that goes on at another copy when one fails.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kvstore/cluster/cluster_parts.h"

namespace tilekv {

// This node's copy where it is good: its bytes are given as they are, to be verified at the end of
// the way. Else another node's, of which every byte is verified here: so what a client finds
// damaged was this node's, and another node's damage is nobody's but this reader's.
//
// Row, leaves and block table are those of the copy that was opened, for as long as the reader
// lives. Reads go on at any copy that can be given in that form: of an object that was opened
// uncoded all, else those with the same block table. NODE_UNAVAILABLE where the others are coded
// otherwise: the object is to be opened again.
//
// Memory beyond tables: for another node's copy a piece of kTransferChunkBytes and some while a
// read lasts, and a block between reads. Errors: see cluster_objects.h; DATA_LOSS where all copies
// there are have failed.
absl::StatusOr<std::shared_ptr<ObjectReader>> OpenInCluster(ClusterParts& parts, Domain domain,
                                                            const ObjectId& id);

}  // namespace tilekv
