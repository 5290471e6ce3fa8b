#include "kvstore/cluster/rounds.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int64_t kSecond_nanos = 1'000'000'000;
constexpr int64_t kNever_nanos = std::numeric_limits<int64_t>::max();

// Waiting times that double as long as nothing comes forward.
int64_t Longer_s(int64_t wait_s) { return std::clamp<int64_t>(2 * wait_s, 2, kRepairRoundEvery_s); }

}  // namespace

void Rounds::FollowMap() {
  OwnPlacement now = OwnPlacement::Of(parts_.view);
  parts_.throttle.SetRate(now.map().settings().repair_bytes_per_second);
  // With an equal version owners and indexes are the same, whatever else is newer.
  const bool same =
      own_.placement != nullptr && own_.version() == now.version() && own_.self == now.self;
  if (same) return;
  own_ = std::move(now);
  parts_.pulls.Clear();
  survey_.reset();
  settle_.reset();
  giving_.reset();
  due_.clear();
  due_objects_ = due_bytes_ = 0;
  foreign_.clear();
  result_ = {};
  complete_ = false;
  stage_ = Stage::kRest;
  again_ = false;
  round_due_nanos_ = own_.self.has_value() ? 0 : kNever_nanos;
  giving_due_nanos_ = kNever_nanos;
  round_wait_s_ = giving_wait_s_ = 0;
}

void Rounds::LookAgain() {
  complete_ = false;
  round_wait_s_ = 0;
  if (stage_ != Stage::kRest) {
    again_ = true;
  } else if (own_.self.has_value()) {
    round_due_nanos_ = Now_nanos();
  }
}

absl::Status Rounds::Step(const CallContext& context) {
  FollowMap();
  absl::Status status = GoOn(context);
  status.Update(GiveAway(context));
  return status;
}

absl::Status Rounds::GoOn(const CallContext& context) {
  if (Now_nanos() < round_due_nanos_) return absl::OkStatus();
  if (stage_ == Stage::kSettle) return Settle(context);
  if (stage_ == Stage::kRest) {
    stage_ = Stage::kSurvey;
    survey_ = std::make_unique<PartitionSurvey>(parts_, own_);
    progress_before_ = parts_.counters.pulled_objects + parts_.counters.raised_revisions;
  }
  TILEKV_ASSIGN_OR_RETURN(bool at_end, survey_->Step(context));
  if (at_end) EndSurvey();
  return absl::OkStatus();
}

void Rounds::EndSurvey() {
  result_ = survey_->Take();
  survey_.reset();
  ++parts_.counters.surveys;
  due_.assign(result_.due.begin(), result_.due.end());
  result_.due = {};
  found_due_ = !due_.empty();
  due_objects_ = due_bytes_ = 0;
  for (const DuePartition& due : due_) {
    due_objects_ += due.objects;
    due_bytes_ += due.content_bytes;
  }
  if (due_objects_ == 0) behind_nanos_.reset();
  if (due_objects_ > 0 && !behind_nanos_.has_value()) behind_nanos_ = Now_nanos();
  const bool news = result_.foreign != foreign_;
  foreign_ = std::move(result_.foreign);
  if (news && giving_ == nullptr && !foreign_.empty()) {
    giving_wait_s_ = 0;
    giving_due_nanos_ = Now_nanos();
  }
  stage_ = Stage::kSettle;
  settled_nanos_ = Now_nanos();
}

bool Rounds::WaitsForPulls() const {
  if (stage_ != Stage::kSettle) return false;
  if (!due_.empty()) return !parts_.pulls.HasRoom();
  // The next survey is to see what came of this one; but others' offers may go on for ever.
  return parts_.pulls.HasFresh() &&
         Now_nanos() - settled_nanos_ < kRepairRoundEvery_s * kSecond_nanos;
}

int64_t Rounds::due_nanos() const {
  return std::min(WaitsForPulls() ? kNever_nanos : round_due_nanos_, giving_due_nanos_);
}

absl::Status Rounds::Settle(const CallContext& context) {
  if (WaitsForPulls()) return absl::OkStatus();
  if (due_.empty()) {
    EndRound();
    return absl::OkStatus();
  }
  if (!settle_.has_value()) settle_.emplace(parts_, own_, due_.front().partition);
  TILEKV_ASSIGN_OR_RETURN(PartitionSettle::Outcome outcome, settle_->Step(result_.silent, context));
  if (outcome != PartitionSettle::Outcome::kDone) return absl::OkStatus();
  settle_.reset();
  due_objects_ -= due_.front().objects;
  due_bytes_ -= due_.front().content_bytes;
  due_.pop_front();
  settled_nanos_ = Now_nanos();
  return absl::OkStatus();
}

void Rounds::EndRound() {
  const bool forward =
      parts_.counters.pulled_objects + parts_.counters.raised_revisions > progress_before_;
  complete_ = !found_due_ && result_.unanswered == 0 && !again_;
  stage_ = Stage::kRest;
  const bool again = std::exchange(again_, false);
  if (complete_ || forward) round_wait_s_ = 0;
  if (!complete_ && !forward && !again) round_wait_s_ = Longer_s(round_wait_s_);
  const int64_t wait_s = complete_ ? kRepairRoundEvery_s : std::max<int64_t>(round_wait_s_, 1);
  round_due_nanos_ = Now_nanos() + wait_s * kSecond_nanos;
}

absl::Status Rounds::GiveAway(const CallContext& context) {
  if (Now_nanos() < giving_due_nanos_) return absl::OkStatus();
  if (giving_ == nullptr) {
    giving_ = std::make_unique<ForeignCopies>(parts_, own_, std::move(foreign_));
    foreign_ = {};
  }
  TILEKV_RETURN_IF_ERROR(giving_->Step(context));
  if (!giving_->at_end()) return absl::OkStatus();
  giving_wait_s_ = giving_->dropped() > 0 ? 1 : Longer_s(giving_wait_s_);
  // What a survey has found meanwhile is newer.
  if (foreign_.empty()) foreign_ = giving_->TakeKept();
  giving_.reset();
  giving_due_nanos_ =
      foreign_.empty() ? kNever_nanos : Now_nanos() + giving_wait_s_ * kSecond_nanos;
  return absl::OkStatus();
}

RepairProgress Rounds::progress() const {
  RepairProgress progress;
  if (own_.placement == nullptr) return progress;
  progress.placement = own_.version();
  progress.complete = complete_;
  progress.owned_partitions = result_.owned;
  progress.short_partitions = result_.short_owned;
  progress.unanswered_partitions = result_.unanswered;
  progress.objects_to_pull = due_objects_;
  progress.bytes_to_pull = due_bytes_;
  progress.foreign_partitions = giving_ != nullptr ? giving_->left() : foreign_.size();
  if (behind_nanos_.has_value()) {
    progress.waiting_s = std::max<int64_t>((Now_nanos() - *behind_nanos_) / kSecond_nanos, 1);
  }
  return progress;
}

}  // namespace tilekv
