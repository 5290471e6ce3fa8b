// Repairing a store's directory before it can be opened.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/object/index_rebuild.h"

namespace tilekv {

// Below a node's data directory: the collector's lists (kvstore/cluster/round_store.h).
inline constexpr char kRoundsFolder[] = "rounds";

// See index_rebuild.h; rows get the catalog's present revision. Where the catalog is gone too they
// get one above every revision, until a node opens them with a catalog from a backup: nothing is
// collected before that may be named by it. `fsck` after it lists the names that need what is lost.
// Of a cluster's node the lists of earlier rounds go: they are of rows that are no more.
absl::StatusOr<IndexRebuildReport> RebuildStoreIndex(const LocalEngineOptions& options,
                                                     const CallContext& context = {});

}  // namespace tilekv
