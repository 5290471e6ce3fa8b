#include "server/round_messages.h"

#include <string>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

void RoundNameToWire(const RoundName& round, v1::RoundName* message) {
  message->set_id(round.id);
  message->set_line_id(round.line_id);
  message->set_snapshot_rev(round.snapshot.value);
  message->set_fence(round.fence.value);
}

RoundName RoundNameFromWire(const v1::RoundName& message) {
  return {.id = message.id(),
          .line_id = message.line_id(),
          .snapshot = {message.snapshot_rev()},
          .fence = {message.fence()}};
}

void RoundPartToWire(const RoundPart& part, v1::RoundPartRequest* message) {
  message->set_domain(part.domain);
  RoundNameToWire(part.round, message->mutable_round());
  for (const PrefixRange& range : part.ranges) {
    message->add_range_firsts(range.first);
    message->add_range_lasts(range.last);
  }
  message->mutable_prefixes()->Assign(part.prefixes.begin(), part.prefixes.end());
}

absl::StatusOr<RoundPart> RoundPartFromWire(const v1::RoundPartRequest& message) {
  if (message.range_firsts_size() != message.range_lasts_size()) {
    return MakeError(Reason::kInvalidArgument, "ranges of a round's list have no end");
  }
  RoundPart part;
  part.domain = message.domain();
  part.round = RoundNameFromWire(message.round());
  for (int i = 0; i < message.range_firsts_size(); ++i) {
    part.ranges.push_back({message.range_firsts(i), message.range_lasts(i)});
  }
  part.prefixes.assign(message.prefixes().begin(), message.prefixes().end());
  return part;
}

void SweepAnswerToWire(const SweepAnswer& answer, v1::SweepRoundResponse* message) {
  message->set_deleted_objects(answer.deleted_objects);
  message->set_deleted_bytes(answer.deleted_bytes);
  message->set_kept_objects(answer.kept_objects);
  if (answer.next_after) message->set_next_after(std::string(answer.next_after->view()));
}

absl::StatusOr<SweepAnswer> SweepAnswerFromWire(const v1::SweepRoundResponse& message) {
  SweepAnswer answer;
  answer.deleted_objects = message.deleted_objects();
  answer.deleted_bytes = message.deleted_bytes();
  answer.kept_objects = message.kept_objects();
  TILEKV_ASSIGN_OR_RETURN(answer.next_after, AfterFromWire(message.next_after()));
  return answer;
}

absl::StatusOr<std::optional<ObjectId>> AfterFromWire(const std::string& bytes) {
  if (bytes.empty()) return std::nullopt;
  TILEKV_ASSIGN_OR_RETURN(ObjectId id, ObjectId::FromBytes(bytes));
  return id;
}

std::string BitsToWire(const std::vector<bool>& bits) {
  std::string bytes((bits.size() + 7) / 8, '\0');
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i]) bytes[i / 8] = static_cast<char>(static_cast<uint8_t>(bytes[i / 8]) | 1u << i % 8);
  }
  return bytes;
}

absl::StatusOr<std::vector<bool>> BitsFromWire(const std::string& bytes, size_t count) {
  if (bytes.size() != (count + 7) / 8) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("{} bytes are not a bit for each of {}", bytes.size(), count));
  }
  std::vector<bool> bits(count);
  for (size_t i = 0; i < count; ++i) {
    bits[i] = (static_cast<uint8_t>(bytes[i / 8]) >> i % 8 & 1) != 0;
  }
  return bits;
}

}  // namespace tilekv
