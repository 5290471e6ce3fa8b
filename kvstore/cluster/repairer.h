// Repair: what one node does, for ever, so that each object is at its owners and nowhere else. Two
// rules give replication, rebalancing, draining, adding and the replacement of disks:
//
// 1. *Offer and pull.* What this node holds and does not own it offers to the owners; an owner that
//    lacks it pulls it. Owners compare digests of their partitions, which cover id and touched_rev;
//    where they differ, each pulls what it lacks, and both raise the revision to the larger one.
// 2. *Drop.* What this node does not own goes once all R owners, of the same placement version, say
//    yes (repair_answers.h), each within kDropAnswerCounts_ms of the question on this node's
//    monotonic clock, and if in the locked section that deletes the row revision and placement are
//    unchanged. Where fewer than R nodes are in, nothing goes.
//
// A round begins with a survey of all partitions (partition_survey.h); then those that differ are
// settled one after another, those with the fewest copies first (partition_settle.h). Beside it
// goes the giving away (foreign_copies.h). Both put what is to be pulled on one bounded list
// (pull_list.h). So memory is bounded whatever the number of objects. Nothing of this is kept
// across a restart or a newer placement: it is found anew.
//
// What the last round of the collector found to be garbage is neither pulled nor kept for others
// (copy_refusals.h): a node that was away does not bring it back.
//
// Copies that are suspect or in quarantine count for nothing, and on an owner they are pulled
// again. A copy is verified to its id while it is stored; one that is damaged is reported to its
// node, and the next one is taken.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/cluster/cluster_view.h"
#include "kvstore/cluster/copy_refusals.h"
#include "kvstore/cluster/peer.h"
#include "kvstore/cluster/repair_answers.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

struct RepairerOptions {
  Domain domain = kDefaultDomain;
  // Where several nodes are asked and several objects pulled at once; the thread of Step works too.
  Executor* executor = nullptr;
  // Of bytes on their way to this node's disk: of pulls alone, so that nodes that pull from each
  // other never wait for each other.
  std::shared_ptr<ByteBudget> pull_budget;
  std::shared_ptr<BufferPool> pool;
  // By which copies are not pulled, and go where others refuse them. Null: none are refused.
  CopyRefusals* refusals = nullptr;
  Clock* clock = Clock::System();
  size_t pulls_at_once = kRepairPullsAtOnce;
  size_t list_objects = kMaxRepairList;
};

// Since the start. Every figure grows by itself.
struct RepairCounters {
  std::atomic<uint64_t> pulled_objects{0};
  std::atomic<uint64_t> pulled_bytes{0};      // as stored
  std::atomic<uint64_t> failed_pulls{0};      // found no copy, or no room
  std::atomic<uint64_t> damaged_sources{0};   // copies of others that proved damaged
  std::atomic<uint64_t> raised_revisions{0};  // here, to what another owner has
  std::atomic<uint64_t> offers{0};            // of objects to nodes
  std::atomic<uint64_t> dropped_objects{0};
  std::atomic<uint64_t> dropped_bytes{0};  // of content
  // Copies that went because an owner refused them.
  std::atomic<uint64_t> collected_objects{0};
  std::atomic<uint64_t> surveys{0};  // that are complete
};

// For people: `cluster status`. What others will pull stands in their own progress.
struct RepairProgress {
  PlacementVersion placement;
  // The last survey is of this placement, every owner has answered it, and all held the same.
  bool complete = false;
  uint64_t owned_partitions = 0;
  // Of these, as the last survey has found them: those whose owners do not all hold the same, or
  // are fewer than R; those of which an owner did not answer.
  uint64_t short_partitions = 0;
  uint64_t unanswered_partitions = 0;
  // That this node lacks; estimated by counts where a partition was not settled yet.
  uint64_t objects_to_pull = 0;
  uint64_t bytes_to_pull = 0;            // of content
  uint64_t missing_objects = 0;          // of these, those for which no copy was found
  uint64_t foreign_partitions = 0;       // of which this node holds something, and does not own it
  uint64_t pulled_bytes_per_second = 0;  // of late
  int64_t waiting_s = 0;  // since when something is to be pulled without a break; 0: nothing is
};

struct RepairParts;
class Rounds;

// One caller of Step at a time; everything else from any thread. Everything that it refers to
// outlives it.
class Repairer {
 public:
  // `local`: this node's own disk. Every field of the options is set, but `refusals` may be null.
  Repairer(ObjectStore& local, Peers& peers, ClusterView& view, const RepairerOptions& options);
  ~Repairer();
  Repairer(const Repairer&) = delete;
  Repairer& operator=(const Repairer&) = delete;

  // Does a bounded piece of what is due: asks nodes, pulls some objects, drops some. Returns after
  // how many microseconds it wants to be called again, a second at most. An error is of this node's
  // disk, and what was due is tried again by the next call; nodes that do not answer are none.
  absl::StatusOr<int64_t> Step(const CallContext& context = {});

  // From any thread: as Rounds::LookAgain, with the next step. Surveys of all partitions cost the
  // more the more is stored: not for each of many small reasons.
  void LookAgain() { look_again_ = true; }
  // For who answers others' offers.
  WantedCopies& wanted();
  const RepairCounters& counters() const;
  RepairProgress progress();

 private:
  int64_t WaitMicros();
  void PullSome(const CallContext& context);
  void PullLoop(const CallContext& context);
  void Publish();

  const std::unique_ptr<RepairParts> parts_;
  const std::unique_ptr<Rounds> rounds_;
  std::atomic<bool> look_again_{false};
  std::atomic<int64_t> paused_until_nanos_{0};  // no room to pull
  int64_t meter_nanos_ = 0;                     // when the present span of the rate began
  uint64_t meter_bytes_ = 0;
  Mutex mutex_;
  RepairProgress progress_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
