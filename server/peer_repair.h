// What a node answers to others that repair, or check the cluster, over messages: without gRPC.
#pragma once

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "server/peer_service.h"
#include "tilekv/v1/peer.pb.h"

namespace tilekv {

// As Peer's calls, and CheckPeer. NODE_UNAVAILABLE: this node does not repair.
absl::StatusOr<v1::DigestsResponse> Digests(const PeerServiceOptions& options,
                                            const v1::DigestsRequest& request,
                                            const CallContext& context);
absl::StatusOr<v1::ListPartitionResponse> ListPartition(const PeerServiceOptions& options,
                                                        const v1::ListPartitionRequest& request,
                                                        const CallContext& context);
absl::StatusOr<v1::OfferResponse> Offer(const PeerServiceOptions& options,
                                        const v1::TouchedRefsRequest& request,
                                        const CallContext& context);
absl::StatusOr<v1::ConfirmDropResponse> ConfirmDrop(const PeerServiceOptions& options,
                                                    const v1::TouchedRefsRequest& request,
                                                    const CallContext& context);

// For a check of the cluster; any node answers.
absl::StatusOr<v1::ListPartitionResponse> ListCopies(const PeerServiceOptions& options,
                                                     const v1::CopiesAfterRequest& request,
                                                     const CallContext& context);
absl::StatusOr<v1::VerifyCopiesResponse> VerifyCopies(const PeerServiceOptions& options,
                                                      const v1::CopiesAfterRequest& request,
                                                      const CallContext& context);

}  // namespace tilekv
