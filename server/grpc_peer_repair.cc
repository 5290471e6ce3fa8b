// Of GrpcPeer: what another node is asked for repair.
#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/grpc/grpc_call.h"
#include "server/grpc_peer.h"
#include "server/repair_messages.h"
#include "server/round_messages.h"

namespace tilekv {
namespace {

// Answers read many rows, and a drop's whole objects, so that a slow disk takes its time.
constexpr int64_t kAnswer_ms = 60'000;

}  // namespace

absl::StatusOr<DigestAnswer> GrpcPeer::Digests(Domain domain, const PlacementVersion& placement,
                                               std::span<const uint32_t> partitions,
                                               const CallContext& context) {
  v1::DigestsRequest request;
  *request.mutable_peer() = Header();
  request.set_domain(domain);
  PlacementToWire(placement, request.mutable_placement());
  request.mutable_partitions()->Assign(partitions.begin(), partitions.end());
  auto response = CallUnary<v1::DigestsResponse>(
      [&](grpc::ClientContext* call, v1::DigestsResponse* to, auto done) {
        control_->async()->Digests(call, &request, to, std::move(done));
      },
      "Digests", kAnswer_ms, name_, context);
  TILEKV_RETURN_IF_ERROR(Ended(response.status()));
  return Read("Digests", DigestAnswerFromWire(*response, partitions.size()));
}

absl::StatusOr<PartitionPage> GrpcPeer::ListPartition(Domain domain, uint32_t partition,
                                                      const std::optional<ObjectId>& after,
                                                      const CallContext& context) {
  v1::ListPartitionRequest request;
  *request.mutable_peer() = Header();
  request.set_domain(domain);
  request.set_partition(partition);
  if (after) request.set_after(after->bytes.data(), after->bytes.size());
  auto response = CallUnary<v1::ListPartitionResponse>(
      [&](grpc::ClientContext* call, v1::ListPartitionResponse* to, auto done) {
        control_->async()->ListPartition(call, &request, to, std::move(done));
      },
      "ListPartition", kAnswer_ms, name_, context);
  TILEKV_RETURN_IF_ERROR(Ended(response.status()));
  return Read("ListPartition", PartitionPageFromWire(*response, after));
}

absl::StatusOr<OfferAnswer> GrpcPeer::Offer(Domain domain, const PlacementVersion& placement,
                                            std::span<const TouchedRef> refs,
                                            const CallContext& context) {
  v1::TouchedRefsRequest request;
  *request.mutable_peer() = Header();
  request.set_domain(domain);
  PlacementToWire(placement, request.mutable_placement());
  TouchedRefsToWire(refs, &request);
  auto response = CallUnary<v1::OfferResponse>(
      [&](grpc::ClientContext* call, v1::OfferResponse* to, auto done) {
        control_->async()->Offer(call, &request, to, std::move(done));
      },
      "Offer", kAnswer_ms, name_, context);
  TILEKV_RETURN_IF_ERROR(Ended(response.status()));
  return Read("Offer", OfferAnswerFromWire(*response, refs.size()));
}

absl::StatusOr<DropAnswer> GrpcPeer::ConfirmDrop(Domain domain, const PlacementVersion& placement,
                                                 std::span<const TouchedRef> refs,
                                                 const CallContext& context) {
  v1::TouchedRefsRequest request;
  *request.mutable_peer() = Header();
  request.set_domain(domain);
  PlacementToWire(placement, request.mutable_placement());
  TouchedRefsToWire(refs, &request);
  // An answer that comes later counts no more.
  auto response = CallUnary<v1::ConfirmDropResponse>(
      [&](grpc::ClientContext* call, v1::ConfirmDropResponse* to, auto done) {
        control_->async()->ConfirmDrop(call, &request, to, std::move(done));
      },
      "ConfirmDrop", kDropAnswerCounts_ms, name_, context);
  TILEKV_RETURN_IF_ERROR(Ended(response.status()));
  return Read("ConfirmDrop", DropAnswerFromWire(*response, refs.size()));
}

absl::StatusOr<PartitionPage> GrpcPeer::ListCopies(Domain domain,
                                                   const std::optional<ObjectId>& after,
                                                   const CallContext& context) {
  v1::CopiesAfterRequest request;
  *request.mutable_peer() = Header();
  request.set_domain(domain);
  if (after) request.set_after(after->bytes.data(), after->bytes.size());
  auto response = CallUnary<v1::ListPartitionResponse>(
      [&](grpc::ClientContext* call, v1::ListPartitionResponse* to, auto done) {
        control_->async()->ListCopies(call, &request, to, std::move(done));
      },
      "ListCopies", kAnswer_ms, name_, context);
  TILEKV_RETURN_IF_ERROR(Ended(response.status()));
  return Read("ListCopies", PartitionPageFromWire(*response, after));
}

absl::StatusOr<VerifyAnswer> GrpcPeer::VerifyCopies(Domain domain,
                                                    const std::optional<ObjectId>& after,
                                                    const CallContext& context) {
  v1::CopiesAfterRequest request;
  *request.mutable_peer() = Header();
  request.set_domain(domain);
  if (after) request.set_after(after->bytes.data(), after->bytes.size());
  auto response = CallUnary<v1::VerifyCopiesResponse>(
      [&](grpc::ClientContext* call, v1::VerifyCopiesResponse* to, auto done) {
        control_->async()->VerifyCopies(call, &request, to, std::move(done));
      },
      "VerifyCopies", kAnswer_ms, name_, context);
  TILEKV_RETURN_IF_ERROR(Ended(response.status()));
  VerifyAnswer answer{.copies = response->copies(),
                      .bytes = response->bytes(),
                      .damaged = response->damaged(),
                      .next_after = {}};
  absl::StatusOr<std::optional<ObjectId>> next = AfterFromWire(response->next_after());
  if (next.ok() && next->has_value() && after.has_value() && **next <= *after) {
    next = MakeError(Reason::kInternal, "a step that does not come forward");
  }
  if (!next.ok()) return Read("VerifyCopies", absl::StatusOr<VerifyAnswer>(next.status()));
  answer.next_after = *next;
  return answer;
}

}  // namespace tilekv
