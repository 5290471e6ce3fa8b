// The rounds of one node's repair: survey, settling, giving away; all but the pulls that come of
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/base/call_context.h"
#include "kvstore/cluster/foreign_copies.h"
#include "kvstore/cluster/partition_settle.h"
#include "kvstore/cluster/partition_survey.h"
#include "kvstore/cluster/repair_parts.h"

namespace tilekv {

// For one thread at a time.
class Rounds {
 public:
  explicit Rounds(RepairParts& parts) : parts_(parts) {}

  // Follows the map, then does a bounded piece of each of the three. An error is of this node's
  // disk.
  absl::Status Step(const CallContext& context);
  // Something has happened that no map tells: a node is back, a copy was found damaged, a write had
  // too few copies. The next round begins now, or as soon as the one in progress has ended, and
  // until then nothing is complete.
  void LookAgain();
  // When there is something to do, on the monotonic clock.
  int64_t due_nanos() const;
  // All but what the list of pulls tells.
  RepairProgress progress() const;

 private:
  enum class Stage { kSurvey, kSettle, kRest };

  void FollowMap();
  absl::Status GoOn(const CallContext& context);
  absl::Status Settle(const CallContext& context);
  void EndSurvey();
  // Nothing is to be settled, or noted, before some pulls have ended.
  bool WaitsForPulls() const;
  void EndRound();
  absl::Status GiveAway(const CallContext& context);
  int64_t Now_nanos() const { return parts_.options.clock->MonotonicNanos(); }

  RepairParts& parts_;
  OwnPlacement own_;  // null before the first step
  Stage stage_ = Stage::kRest;
  int64_t round_due_nanos_ = 0;
  int64_t settled_nanos_ = 0;  // when the last partition of this round was settled
  int64_t round_wait_s_ = 0;   // after the last round in which nothing came forward
  std::unique_ptr<PartitionSurvey> survey_;
  SurveyResult result_;           // of the last survey; due and foreign are taken out of it
  std::deque<DuePartition> due_;  // not settled yet
  uint64_t due_objects_ = 0;      // that this node lacks of these, as far as counts tell
  uint64_t due_bytes_ = 0;        // of content, likewise
  std::optional<PartitionSettle> settle_;  // the first of them
  bool found_due_ = false;                 // by the survey of this round
  uint64_t progress_before_ = 0;           // see EndRound
  bool complete_ = false;
  bool again_ = false;                   // a round that is in progress may have been too early
  std::optional<int64_t> behind_nanos_;  // since when each survey finds that something is lacking

  std::unique_ptr<ForeignCopies> giving_;  // a pass in progress
  std::vector<uint32_t> foreign_;          // for the next pass
  int64_t giving_due_nanos_ = 0;
  int64_t giving_wait_s_ = 0;
};

}  // namespace tilekv
