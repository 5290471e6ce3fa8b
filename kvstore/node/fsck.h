// Fsck: rows, files and counts of the store against each other, when asked the bytes of every
// payload, and from names through trees to objects.
//
// Changes nothing but the state of copies whose content was read, unless it repairs. Repairing
// never deletes what may be the last copy of anything: bad copies are quarantined, so that the
// object is taken when it is stored again; files that no row names go; counts and the heads of
// models are set right; tags of versions that are gone go. What names need and nobody has is listed
// as lost. Where an opening left out what may have been a row, files without one stay until all
// contents were read and nothing is lost.
#pragma once

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/node/node_context.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// Kinds of problems: those of CopyProblem, and `missing` (a named object is not here), `damaged`
// (it is, but quarantined or not what its id says), `tree` (not a tree), `record` (the catalog
// contradicts itself).
absl::StatusOr<v1::FsckResponse> RunFsck(NodeContext& node, const v1::FsckRequest& request,
                                         const CallContext& context);

}  // namespace tilekv
