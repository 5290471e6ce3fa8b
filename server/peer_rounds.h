// What a node answers to the one that collects, over messages: without gRPC.
#pragma once

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "server/peer_service.h"
#include "tilekv/v1/peer.pb.h"

namespace tilekv {

// As RoundPeer's calls, and CheckPeer. NODE_UNAVAILABLE: this node takes no rounds.
absl::StatusOr<v1::HeldPartitionsResponse> HeldPartitions(const PeerServiceOptions& options,
                                                          const v1::HeldPartitionsRequest& request,
                                                          const CallContext& context);
absl::StatusOr<v1::StoreRoundPartResponse> StoreRoundPart(const PeerServiceOptions& options,
                                                          const v1::RoundPartRequest& request,
                                                          const CallContext& context);
absl::StatusOr<v1::SweepRoundResponse> SweepRound(const PeerServiceOptions& options,
                                                  const v1::SweepRoundRequest& request,
                                                  const CallContext& context);
absl::StatusOr<v1::SweepRoundResponse> CountGarbage(const PeerServiceOptions& options,
                                                    const v1::RoundPartRequest& request,
                                                    const CallContext& context);
// SESSION_LOST: a round that began after the session's end was told to this node.
absl::Status CheckSession(const PeerServiceOptions& options, Revision session_rev);

}  // namespace tilekv
