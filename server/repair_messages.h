// What nodes ask each other for repair (kvstore/cluster/repair_values.h), as messages of
// peer.proto. Questions that are none are INVALID_ARGUMENT; answers that cannot be given to a
// question are INTERNAL, and say what is wrong with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/cluster/repair_values.h"
#include "tilekv/v1/peer.pb.h"

namespace tilekv {

void PlacementToWire(const PlacementVersion& placement, v1::Placement* message);
PlacementVersion PlacementFromWire(const v1::Placement& message);

void TouchedRefsToWire(std::span<const TouchedRef> refs, v1::TouchedRefsRequest* message);
absl::StatusOr<std::vector<TouchedRef>> TouchedRefsFromWire(const v1::TouchedRefsRequest& message);

void DigestAnswerToWire(const DigestAnswer& answer, v1::DigestsResponse* message);
// `asked`: of how many partitions.
absl::StatusOr<DigestAnswer> DigestAnswerFromWire(const v1::DigestsResponse& message, size_t asked);

void PartitionPageToWire(const PartitionPage& page, v1::ListPartitionResponse* message);
// The ids ascend and lie above `after`; there are rows, or it is the end.
absl::StatusOr<PartitionPage> PartitionPageFromWire(const v1::ListPartitionResponse& message,
                                                    const std::optional<ObjectId>& after);

void OfferAnswerToWire(const OfferAnswer& answer, v1::OfferResponse* message);
// `asked`: of how many objects. Nothing, or a result for each.
absl::StatusOr<OfferAnswer> OfferAnswerFromWire(const v1::OfferResponse& message, size_t asked);

void DropAnswerToWire(const DropAnswer& answer, v1::ConfirmDropResponse* message);
// Likewise.
absl::StatusOr<DropAnswer> DropAnswerFromWire(const v1::ConfirmDropResponse& message, size_t asked);

}  // namespace tilekv
