// The scrubber: reads every object of a node from its disk, again and again, so that damage is
// found while another copy, or a source, is still there. A state machine: no thread, no waiting.
//
// An object is due when it was not verified for half of the period, or is suspect. Objects that are
// due are read in order of id, at a rate at which all that is stored takes the other half; so each
// is read within the period, whatever happens meanwhile. What was read is known by its row's time
// of verification: after a restart those that were read are not due, and the work goes on where it
// stood.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

struct ScrubStats {
  uint64_t objects = 0;  // read since the start
  uint64_t bytes = 0;    // as stored
  uint64_t damaged = 0;  // of these, now quarantined
  uint64_t rounds = 0;   // through all rows
};

// One caller of Step at a time; stats() from any thread.
class Scrubber {
 public:
  Scrubber(ObjectStore& objects, Domain domain, Clock& clock, int64_t period_s = kScrubPeriod_s)
      : objects_(objects),
        domain_(domain),
        clock_(clock),
        due_after_micros_(period_s * 1'000'000 / 2) {}

  // Reads the next object that is due, if there is one near. Returns after how many microseconds it
  // wants to be called again. An object that fails is quarantined (the store's notices name it) and
  // is no error.
  absl::StatusOr<int64_t> Step(const CallContext& context = {});
  ScrubStats stats();

 private:
  // The next row that is due among the next ones; none: none of these.
  absl::StatusOr<std::optional<ObjectRow>> FindDue(int64_t now_micros);
  absl::StatusOr<int64_t> Check(const ObjectRow& row);
  int64_t EndRound(int64_t now_micros);

  ObjectStore& objects_;
  const Domain domain_;
  Clock& clock_;
  const int64_t due_after_micros_;

  std::optional<ObjectId> after_;           // the last row that was looked at in this round
  bool at_end_ = false;                     // there are no more rows in this round
  bool any_due_ = false;                    // in this round
  std::optional<int64_t> next_due_micros_;  // the first of those that were not due
  Mutex mutex_;
  ScrubStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
