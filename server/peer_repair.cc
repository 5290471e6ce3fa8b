#include "server/peer_repair.h"

#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/copy_listing.h"
#include "kvstore/cluster/repair_answers.h"
#include "server/peer_streams.h"
#include "server/repair_messages.h"
#include "server/round_messages.h"

namespace tilekv {
namespace {

absl::Status CheckRepairs(const PeerServiceOptions& options, const v1::PeerHeader& header) {
  TILEKV_RETURN_IF_ERROR(CheckPeer(options, header));
  if (options.repair != nullptr) return absl::OkStatus();
  return MakeError(Reason::kNodeUnavailable,
                   fmt::format("node '{}' answers nothing for repair", Printable(options.node_id)));
}

}  // namespace

absl::StatusOr<v1::DigestsResponse> Digests(const PeerServiceOptions& options,
                                            const v1::DigestsRequest& request,
                                            const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckRepairs(options, request.peer()));
  const std::vector<uint32_t> partitions(request.partitions().begin(), request.partitions().end());
  TILEKV_ASSIGN_OR_RETURN(
      DigestAnswer answer,
      options.repair->Digests(request.domain(), PlacementFromWire(request.placement()), partitions,
                              context));
  v1::DigestsResponse response;
  DigestAnswerToWire(answer, &response);
  return response;
}

absl::StatusOr<v1::ListPartitionResponse> ListPartition(const PeerServiceOptions& options,
                                                        const v1::ListPartitionRequest& request,
                                                        const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckRepairs(options, request.peer()));
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectId> after, AfterFromWire(request.after()));
  TILEKV_ASSIGN_OR_RETURN(
      PartitionPage page,
      options.repair->ListPartition(request.domain(), request.partition(), after, context));
  v1::ListPartitionResponse response;
  PartitionPageToWire(page, &response);
  return response;
}

absl::StatusOr<v1::OfferResponse> Offer(const PeerServiceOptions& options,
                                        const v1::TouchedRefsRequest& request,
                                        const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckRepairs(options, request.peer()));
  TILEKV_ASSIGN_OR_RETURN(std::vector<TouchedRef> refs, TouchedRefsFromWire(request));
  TILEKV_ASSIGN_OR_RETURN(
      OfferAnswer answer,
      options.repair->Offer(request.peer().from(), request.domain(),
                            PlacementFromWire(request.placement()), refs, context));
  v1::OfferResponse response;
  OfferAnswerToWire(answer, &response);
  return response;
}

absl::StatusOr<v1::ConfirmDropResponse> ConfirmDrop(const PeerServiceOptions& options,
                                                    const v1::TouchedRefsRequest& request,
                                                    const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckRepairs(options, request.peer()));
  TILEKV_ASSIGN_OR_RETURN(std::vector<TouchedRef> refs, TouchedRefsFromWire(request));
  TILEKV_ASSIGN_OR_RETURN(
      DropAnswer answer,
      options.repair->ConfirmDrop(request.domain(), PlacementFromWire(request.placement()), refs,
                                  context));
  v1::ConfirmDropResponse response;
  DropAnswerToWire(answer, &response);
  return response;
}

absl::StatusOr<v1::ListPartitionResponse> ListCopies(const PeerServiceOptions& options,
                                                     const v1::CopiesAfterRequest& request,
                                                     const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckPeer(options, request.peer()));
  TILEKV_RETURN_IF_ERROR(context.Check());
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectId> after, AfterFromWire(request.after()));
  TILEKV_ASSIGN_OR_RETURN(PartitionPage page,
                          ListCopies(*options.objects, request.domain(), after));
  v1::ListPartitionResponse response;
  PartitionPageToWire(page, &response);
  return response;
}

absl::StatusOr<v1::VerifyCopiesResponse> VerifyCopies(const PeerServiceOptions& options,
                                                      const v1::CopiesAfterRequest& request,
                                                      const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckPeer(options, request.peer()));
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectId> after, AfterFromWire(request.after()));
  TILEKV_ASSIGN_OR_RETURN(VerifyAnswer answer,
                          VerifyCopies(*options.objects, request.domain(), after, context));
  v1::VerifyCopiesResponse response;
  response.set_copies(answer.copies);
  response.set_bytes(answer.bytes);
  response.set_damaged(answer.damaged);
  if (answer.next_after) response.set_next_after(std::string(answer.next_after->view()));
  return response;
}

}  // namespace tilekv
