// What nodes ask each other in the collector's rounds (kvstore/cluster/round_peer.h), as messages
// of peer.proto.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/cluster/round_peer.h"
#include "tilekv/v1/peer.pb.h"

namespace tilekv {

void RoundNameToWire(const RoundName& round, v1::RoundName* message);
RoundName RoundNameFromWire(const v1::RoundName& message);

void RoundPartToWire(const RoundPart& part, v1::RoundPartRequest* message);
// INVALID_ARGUMENT where it is none; what it has is not looked at further.
absl::StatusOr<RoundPart> RoundPartFromWire(const v1::RoundPartRequest& message);

void SweepAnswerToWire(const SweepAnswer& answer, v1::SweepRoundResponse* message);
absl::StatusOr<SweepAnswer> SweepAnswerFromWire(const v1::SweepRoundResponse& message);

// None: from the first one. An id has 32 bytes.
absl::StatusOr<std::optional<ObjectId>> AfterFromWire(const std::string& bytes);

std::string BitsToWire(const std::vector<bool>& bits);
// INVALID_ARGUMENT where it is not for so many.
absl::StatusOr<std::vector<bool>> BitsFromWire(const std::string& bytes, size_t count);

}  // namespace tilekv
