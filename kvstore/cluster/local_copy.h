// This node's own disk, written to as another node's is.
#pragma once

#include <memory>

#include "kvstore/cluster/peer.h"

namespace tilekv {

// STORE_FULL, STORE_FAILED, OBJECT_TOO_LARGE and INVALID_ARGUMENT as ObjectStore::NewWriter.
// Append and Finish fail as ObjectWriter's do.
absl::StatusOr<std::unique_ptr<CopyWriter>> NewLocalCopy(ObjectStore& local, const PutSpec& spec);

}  // namespace tilekv
