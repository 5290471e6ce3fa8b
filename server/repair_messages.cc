#include "server/repair_messages.h"

#include <string>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/wire/object_messages.h"
#include "server/round_messages.h"

namespace tilekv {
namespace {

absl::Status Wrong(const std::string& what) { return MakeError(Reason::kInternal, what); }

// A node of another placement answers nothing else.
absl::Status CheckCount(const char* what, int count, size_t asked) {
  const auto given = static_cast<size_t>(count);
  if (given == 0 || given == asked) return absl::OkStatus();
  return Wrong(fmt::format("{} {} for {} objects", given, what, asked));
}

absl::StatusOr<PartitionRow> RowFromWire(const v1::PartitionRow& message) {
  PartitionRow row;
  TILEKV_ASSIGN_OR_RETURN(row.ref, ObjectRefFromWire(message.ref()));
  row.touched_rev = {message.touched_rev()};
  if (message.state() < static_cast<uint32_t>(RowState::kGood) ||
      message.state() > static_cast<uint32_t>(RowState::kQuarantined)) {
    return Wrong(fmt::format("a row in state {}", message.state()));
  }
  row.state = static_cast<RowState>(message.state());
  return row;
}

}  // namespace

void PlacementToWire(const PlacementVersion& placement, v1::Placement* message) {
  message->set_version(placement.version.value);
  message->set_hash(placement.hash);
}

PlacementVersion PlacementFromWire(const v1::Placement& message) {
  return {.version = {message.version()}, .hash = message.hash()};
}

void TouchedRefsToWire(std::span<const TouchedRef> refs, v1::TouchedRefsRequest* message) {
  for (const TouchedRef& ref : refs) {
    ObjectRefToWire(ref.ref, message->add_refs());
    message->add_touched_revs(ref.touched_rev.value);
  }
}

absl::StatusOr<std::vector<TouchedRef>> TouchedRefsFromWire(const v1::TouchedRefsRequest& message) {
  if (message.refs_size() != message.touched_revs_size()) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("{} revisions for {} objects", message.touched_revs_size(),
                                 message.refs_size()));
  }
  if (static_cast<size_t>(message.refs_size()) > kMaxRepairBatch) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("{} objects in one question; at most {} are taken",
                                 message.refs_size(), kMaxRepairBatch));
  }
  std::vector<TouchedRef> refs;
  refs.reserve(message.refs_size());
  for (int i = 0; i < message.refs_size(); ++i) {
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ObjectRefFromWire(message.refs(i)));
    refs.push_back({ref, {message.touched_revs(i)}});
  }
  return refs;
}

void DigestAnswerToWire(const DigestAnswer& answer, v1::DigestsResponse* message) {
  PlacementToWire(answer.placement, message->mutable_placement());
  for (const PartitionDigest& digest : answer.digests) {
    v1::PartitionDigest* to = message->add_digests();
    to->set_objects(digest.objects);
    to->set_content_bytes(digest.content_bytes);
    to->set_first_sum(digest.sums[0]);
    to->set_second_sum(digest.sums[1]);
  }
}

absl::StatusOr<DigestAnswer> DigestAnswerFromWire(const v1::DigestsResponse& message,
                                                  size_t asked) {
  if (static_cast<size_t>(message.digests_size()) > asked) {
    return Wrong(fmt::format("{} digests of {} partitions", message.digests_size(), asked));
  }
  DigestAnswer answer{.placement = PlacementFromWire(message.placement()), .digests = {}};
  for (const v1::PartitionDigest& digest : message.digests()) {
    answer.digests.push_back({.objects = digest.objects(),
                              .content_bytes = digest.content_bytes(),
                              .sums = {digest.first_sum(), digest.second_sum()}});
  }
  return answer;
}

void PartitionPageToWire(const PartitionPage& page, v1::ListPartitionResponse* message) {
  for (const PartitionRow& row : page.rows) {
    v1::PartitionRow* to = message->add_rows();
    ObjectRefToWire(row.ref, to->mutable_ref());
    to->set_touched_rev(row.touched_rev.value);
    to->set_state(static_cast<uint32_t>(row.state));
  }
  message->set_end(page.end);
}

absl::StatusOr<PartitionPage> PartitionPageFromWire(const v1::ListPartitionResponse& message,
                                                    const std::optional<ObjectId>& after) {
  if (static_cast<size_t>(message.rows_size()) > kMaxRepairBatch) {
    return Wrong(fmt::format("a page of {} rows", message.rows_size()));
  }
  if (message.rows().empty() && !message.end()) return Wrong("a page of no rows is not the last");
  PartitionPage page{.rows = {}, .end = message.end()};
  std::optional<ObjectId> last = after;
  for (const v1::PartitionRow& from : message.rows()) {
    TILEKV_ASSIGN_OR_RETURN(PartitionRow row, RowFromWire(from));
    if (last.has_value() && row.ref.id <= *last) return Wrong("rows that are not in order of id");
    last = row.ref.id;
    page.rows.push_back(row);
  }
  return page;
}

void OfferAnswerToWire(const OfferAnswer& answer, v1::OfferResponse* message) {
  PlacementToWire(answer.placement, message->mutable_placement());
  for (OfferOutcome outcome : answer.outcomes) {
    message->add_outcomes(static_cast<uint32_t>(outcome));
  }
  if (answer.round.has_value()) RoundNameToWire(*answer.round, message->mutable_round());
}

absl::StatusOr<OfferAnswer> OfferAnswerFromWire(const v1::OfferResponse& message, size_t asked) {
  TILEKV_RETURN_IF_ERROR(CheckCount("outcomes", message.outcomes_size(), asked));
  OfferAnswer answer;
  answer.placement = PlacementFromWire(message.placement());
  for (uint32_t outcome : message.outcomes()) {
    if (outcome < static_cast<uint32_t>(OfferOutcome::kHas) ||
        outcome > static_cast<uint32_t>(OfferOutcome::kCollected)) {
      return Wrong(fmt::format("an offer has no outcome {}", outcome));
    }
    answer.outcomes.push_back(static_cast<OfferOutcome>(outcome));
    if (answer.outcomes.back() == OfferOutcome::kCollected && !message.has_round()) {
      return Wrong("an object was collected by a round that is not told");
    }
  }
  if (message.has_round()) answer.round = RoundNameFromWire(message.round());
  return answer;
}

void DropAnswerToWire(const DropAnswer& answer, v1::ConfirmDropResponse* message) {
  PlacementToWire(answer.placement, message->mutable_placement());
  message->set_store_uuid(answer.store_uuid);
  for (bool confirmed : answer.confirmed) message->add_confirmed(confirmed);
}

absl::StatusOr<DropAnswer> DropAnswerFromWire(const v1::ConfirmDropResponse& message,
                                              size_t asked) {
  TILEKV_RETURN_IF_ERROR(CheckCount("answers", message.confirmed_size(), asked));
  return DropAnswer{.placement = PlacementFromWire(message.placement()),
                    .store_uuid = message.store_uuid(),
                    .confirmed = {message.confirmed().begin(), message.confirmed().end()}};
}

}  // namespace tilekv
