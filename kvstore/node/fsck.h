// Fsck: from names through trees to objects, and, when asked, through the bytes of every payload.
// Changes nothing except the state of copies whose content was read.
#pragma once

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/node/node_context.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// Kinds of problems: `missing` (a named object is not here), `damaged` (it is, but quarantined or
// not what its id says), `tree` (not a tree), `record` (the catalog contradicts itself).
absl::StatusOr<v1::FsckResponse> RunFsck(NodeContext& node, const v1::FsckRequest& request,
                                         const CallContext& context);

}  // namespace tilekv
