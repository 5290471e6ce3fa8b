// Who uses how much, who refers to what, and where copies are: read-only walks over all names.
#pragma once

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/node/node_context.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// Rows of the models and, together, of the plain values that begin with the prefix. Whether an
// object is shared is decided over everything. Deleted versions count until they are purged.
absl::StatusOr<v1::UsageResponse> ComputeUsage(NodeContext& node, const v1::UsageRequest& request,
                                               const CallContext& context);
// The versions, not purged, that reach each object: the first hundred of them, and how many. Every
// tree is read once. INVALID_ARGUMENT beyond kMaxBatchOperations objects.
absl::StatusOr<v1::FindReferrersResponse> FindReferrers(NodeContext& node,
                                                        const v1::FindReferrersRequest& request,
                                                        const CallContext& context);
// As many at once.
absl::StatusOr<v1::LocateResponse> Locate(NodeContext& node, const v1::LocateRequest& request);

}  // namespace tilekv
