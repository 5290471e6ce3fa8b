#include "server/peer_rounds.h"

#include <optional>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/node_rounds.h"
#include "server/peer_streams.h"
#include "server/round_messages.h"

namespace tilekv {
namespace {

absl::Status CheckTakesRounds(const PeerServiceOptions& options, const v1::PeerHeader& header) {
  TILEKV_RETURN_IF_ERROR(CheckPeer(options, header));
  if (options.rounds != nullptr) return absl::OkStatus();
  return MakeError(
      Reason::kNodeUnavailable,
      fmt::format("node '{}' takes no rounds of the collector", Printable(options.node_id)));
}

v1::SweepRoundResponse ToWire(const SweepAnswer& answer) {
  v1::SweepRoundResponse response;
  SweepAnswerToWire(answer, &response);
  return response;
}

}  // namespace

absl::StatusOr<v1::HeldPartitionsResponse> HeldPartitions(const PeerServiceOptions& options,
                                                          const v1::HeldPartitionsRequest& request,
                                                          const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckTakesRounds(options, request.peer()));
  TILEKV_ASSIGN_OR_RETURN(
      std::vector<bool> held,
      options.rounds->HeldPartitions(request.domain(), request.partition_bits(), context));
  v1::HeldPartitionsResponse response;
  response.set_held(BitsToWire(held));
  return response;
}

absl::StatusOr<v1::StoreRoundPartResponse> StoreRoundPart(const PeerServiceOptions& options,
                                                          const v1::RoundPartRequest& request,
                                                          const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckTakesRounds(options, request.peer()));
  TILEKV_ASSIGN_OR_RETURN(RoundPart part, RoundPartFromWire(request));
  TILEKV_RETURN_IF_ERROR(options.rounds->StoreRoundPart(part, context));
  return v1::StoreRoundPartResponse();
}

absl::StatusOr<v1::SweepRoundResponse> SweepRound(const PeerServiceOptions& options,
                                                  const v1::SweepRoundRequest& request,
                                                  const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckTakesRounds(options, request.peer()));
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectId> after, AfterFromWire(request.after()));
  TILEKV_ASSIGN_OR_RETURN(
      SweepAnswer answer,
      options.rounds->SweepRound(request.domain(), RoundNameFromWire(request.round()), after,
                                 context));
  return ToWire(answer);
}

absl::StatusOr<v1::SweepRoundResponse> CountGarbage(const PeerServiceOptions& options,
                                                    const v1::RoundPartRequest& request,
                                                    const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckTakesRounds(options, request.peer()));
  TILEKV_ASSIGN_OR_RETURN(RoundPart part, RoundPartFromWire(request));
  TILEKV_ASSIGN_OR_RETURN(SweepAnswer answer, options.rounds->CountGarbage(part, context));
  return ToWire(answer);
}

absl::Status CheckSession(const PeerServiceOptions& options, Revision session_rev) {
  return options.rounds == nullptr ? absl::OkStatus() : options.rounds->CheckSession(session_rev);
}

}  // namespace tilekv
