// Repairing a store's directory before it can be opened.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/object/index_rebuild.h"

namespace tilekv {

// See index_rebuild.h; rows get the catalog's present revision. Where the catalog is gone too they
// get one above every revision: nothing is ever collected that may be named by a catalog from a
// backup. `fsck` after it lists the names that need what is lost.
absl::StatusOr<IndexRebuildReport> RebuildStoreIndex(const LocalEngineOptions& options,
                                                     const CallContext& context = {});

}  // namespace tilekv
