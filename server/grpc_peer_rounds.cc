// Of GrpcPeer: what another node is asked in the collector's rounds.
#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/grpc/grpc_call.h"
#include "server/grpc_peer.h"
#include "server/round_messages.h"

namespace tilekv {
namespace {

// A step deletes so many files, or looks at so many rows, that a slow disk takes its time.
constexpr int64_t kStep_ms = 60'000;

}  // namespace

absl::StatusOr<std::vector<bool>> GrpcPeer::HeldPartitions(Domain domain, uint32_t partition_bits,
                                                           const CallContext& context) {
  v1::HeldPartitionsRequest request;
  *request.mutable_peer() = Header();
  request.set_domain(domain);
  request.set_partition_bits(partition_bits);
  auto response = CallUnary<v1::HeldPartitionsResponse>(
      [&](grpc::ClientContext* call, v1::HeldPartitionsResponse* to, auto done) {
        control_->async()->HeldPartitions(call, &request, to, std::move(done));
      },
      "HeldPartitions", kStep_ms, name_, context);
  TILEKV_RETURN_IF_ERROR(Ended(response.status()));
  return BitsFromWire(response->held(), size_t{1} << partition_bits);
}

absl::Status GrpcPeer::StoreRoundPart(const RoundPart& part, const CallContext& context) {
  v1::RoundPartRequest request;
  *request.mutable_peer() = Header();
  RoundPartToWire(part, &request);
  auto response = CallUnary<v1::StoreRoundPartResponse>(
      [&](grpc::ClientContext* call, v1::StoreRoundPartResponse* to, auto done) {
        control_->async()->StoreRoundPart(call, &request, to, std::move(done));
      },
      "StoreRoundPart", kStep_ms, name_, context);
  return Ended(response.status());
}

absl::StatusOr<SweepAnswer> GrpcPeer::SweepRound(Domain domain, const RoundName& round,
                                                 const std::optional<ObjectId>& after,
                                                 const CallContext& context) {
  v1::SweepRoundRequest request;
  *request.mutable_peer() = Header();
  request.set_domain(domain);
  RoundNameToWire(round, request.mutable_round());
  if (after) request.set_after(after->bytes.data(), after->bytes.size());
  auto response = CallUnary<v1::SweepRoundResponse>(
      [&](grpc::ClientContext* call, v1::SweepRoundResponse* to, auto done) {
        control_->async()->SweepRound(call, &request, to, std::move(done));
      },
      "SweepRound", kStep_ms, name_, context);
  TILEKV_RETURN_IF_ERROR(Ended(response.status()));
  return SweepAnswerFromWire(*response);
}

absl::StatusOr<SweepAnswer> GrpcPeer::CountGarbage(const RoundPart& part,
                                                   const CallContext& context) {
  v1::RoundPartRequest request;
  *request.mutable_peer() = Header();
  RoundPartToWire(part, &request);
  auto response = CallUnary<v1::SweepRoundResponse>(
      [&](grpc::ClientContext* call, v1::SweepRoundResponse* to, auto done) {
        control_->async()->CountGarbage(call, &request, to, std::move(done));
      },
      "CountGarbage", kStep_ms, name_, context);
  TILEKV_RETURN_IF_ERROR(Ended(response.status()));
  return SweepAnswerFromWire(*response);
}

}  // namespace tilekv
