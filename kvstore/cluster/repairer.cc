#include "kvstore/cluster/repairer.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "kvstore/base/status.h"
#include "kvstore/cluster/concurrently.h"
#include "kvstore/cluster/copy_puller.h"
#include "kvstore/cluster/repair_parts.h"
#include "kvstore/cluster/rounds.h"

namespace tilekv {
namespace {

constexpr int64_t kSecond_nanos = 1'000'000'000;
constexpr int64_t kMostWait_nanos = kSecond_nanos;
constexpr int64_t kNoRoomWait_nanos = 30 * kSecond_nanos;
constexpr int64_t kMeter_nanos = 10 * kSecond_nanos;
// Of one worker in one step, so that a step ends where sources fail slowly.
constexpr int kMostPulls = 64;

}  // namespace

Repairer::Repairer(ObjectStore& local, Peers& peers, ClusterView& view,
                   const RepairerOptions& options)
    : parts_(std::make_unique<RepairParts>(local, peers, view, options)),
      rounds_(std::make_unique<Rounds>(*parts_)),
      meter_nanos_(options.clock->MonotonicNanos()) {
  TILEKV_CHECK(options.executor != nullptr && options.pull_budget != nullptr &&
               options.pool != nullptr && options.pulls_at_once > 0);
}

Repairer::~Repairer() = default;

WantedCopies& Repairer::wanted() { return parts_->pulls; }
const RepairCounters& Repairer::counters() const { return parts_->counters; }

RepairProgress Repairer::progress() {
  const PullFigures pulls = parts_->pulls.figures();
  MutexLock lock(mutex_);
  RepairProgress progress = progress_;
  progress.objects_to_pull += pulls.objects;
  progress.bytes_to_pull += pulls.content_bytes;
  progress.missing_objects = pulls.missing;
  progress.complete &= !look_again_;
  if (pulls.oldest_nanos.has_value()) {
    const int64_t waiting_nanos = parts_->options.clock->MonotonicNanos() - *pulls.oldest_nanos;
    progress.waiting_s = std::max({progress.waiting_s, waiting_nanos / kSecond_nanos, int64_t{1}});
  }
  return progress;
}

absl::StatusOr<int64_t> Repairer::Step(const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  if (look_again_.exchange(false)) rounds_->LookAgain();
  const absl::Status status = rounds_->Step(context);
  PullSome(context);
  Publish();
  TILEKV_RETURN_IF_ERROR(status);
  return WaitMicros();
}

void Repairer::PullSome(const CallContext& context) {
  if (!parts_->pulls.HasDue()) return;
  std::vector<std::function<void()>> workers(parts_->options.pulls_at_once,
                                             [this, &context] { PullLoop(context); });
  RunConcurrently(*parts_->options.executor, std::move(workers));
}

void Repairer::PullLoop(const CallContext& context) {
  for (int i = 0; i < kMostPulls; ++i) {
    const int64_t now_nanos = parts_->options.clock->MonotonicNanos();
    if (now_nanos < paused_until_nanos_ || parts_->throttle.Wait_nanos() > 0) return;
    if (!context.Check().ok()) return;
    const std::optional<Pull> pull = parts_->pulls.Next();
    if (!pull.has_value()) return;
    const ObjectId& id = pull->wanted.ref.id;
    switch (CopyPuller(*parts_, *pull, context).Run()) {
      case PullOutcome::kHere:
      case PullOutcome::kNotOwned:
      case PullOutcome::kGone:
        parts_->pulls.Done(id);
        break;
      case PullOutcome::kNoSource:
        ++parts_->counters.failed_pulls;
        parts_->pulls.TryLater(id);
        break;
      case PullOutcome::kNoRoom:
        ++parts_->counters.failed_pulls;
        paused_until_nanos_ = now_nanos + kNoRoomWait_nanos;
        parts_->pulls.PutBack(id);
        break;
      case PullOutcome::kEnded:
        parts_->pulls.PutBack(id);
        break;
    }
  }
}

int64_t Repairer::WaitMicros() {
  const int64_t now_nanos = parts_->options.clock->MonotonicNanos();
  int64_t due_nanos = rounds_->due_nanos();
  if (parts_->pulls.HasDue()) {
    const int64_t pull_nanos = now_nanos + parts_->throttle.Wait_nanos();
    due_nanos = std::min(due_nanos, std::max<int64_t>(pull_nanos, paused_until_nanos_));
  } else if (const auto later = parts_->pulls.NextDue_nanos()) {
    due_nanos = std::min(due_nanos, *later);
  }
  // Others' offers and newer maps come at any time.
  return std::clamp<int64_t>(due_nanos - now_nanos, 0, kMostWait_nanos) / 1'000;
}

void Repairer::Publish() {
  RepairProgress progress = rounds_->progress();
  const int64_t now_nanos = parts_->options.clock->MonotonicNanos();
  const int64_t span_nanos = now_nanos - meter_nanos_;
  const uint64_t bytes = parts_->counters.pulled_bytes - meter_bytes_;
  MutexLock lock(mutex_);
  progress.pulled_bytes_per_second = progress_.pulled_bytes_per_second;
  if (span_nanos >= kMeter_nanos) {
    progress.pulled_bytes_per_second =
        static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(span_nanos));
    meter_nanos_ = now_nanos;
    meter_bytes_ += bytes;
  }
  progress_ = progress;
}

}  // namespace tilekv
