// Recode: stores objects of a node in another encoding, a step at a time, so that whoever asks sees
// how far it is and can stop.
#pragma once

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/node/node_context.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

// Blobs that are good, of kInlineContentBytes or more: smaller ones are in the index, and trees are
// what the node itself reads. Objects asked for that are none of these, or that go meanwhile, are
// skipped; a damaged one is marked, counted and left. INVALID_ARGUMENT for a codec that there is
// not.
absl::StatusOr<v1::RecodeResponse> RunRecode(NodeContext& node, const v1::RecodeRequest& request,
                                             const CallContext& context);

}  // namespace tilekv
