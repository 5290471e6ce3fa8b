// The scrubber: reads every object of a node from its disk, again and again, so that damage is
// found while another copy, or a source, is still there. A state machine: no thread, no waiting.
//
// An object is due when it was not verified for half of the period, or is suspect: one that still
// cannot be read is tried again once an hour. Quarantined ones are due as others are, and what is
// sound again is taken back. Objects that are due are read in order of id, at a rate at which all
// that is stored takes the other half; so each is read within the period, whatever happens
// meanwhile. What was read is known by its row's time of verification: after a restart those that
// were read are not due, and the work goes on where it stood.
//
// Small contents are checked as the databases have them, which is often from memory. So the tables
// of the databases are read from the disk too: all of them after a start, and again each half
// period, at 32 MiB a second.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/base/table_files.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

struct ScrubStats {
  uint64_t objects = 0;  // read since the start
  uint64_t bytes = 0;    // as stored
  uint64_t damaged = 0;  // of these, now quarantined, or suspect where they could not be read
  uint64_t rounds = 0;   // through all rows
  uint64_t tables = 0;   // of databases, read since the start
  uint64_t damaged_tables = 0;
};

// What is read beside objects. The files outlive the scrubber.
struct ScrubbedTables {
  std::vector<TableFiles*> of;  // null: none
  // Told of a table that is damaged.
  std::function<void(const std::string&)> notice;
};

// One caller of Step at a time; stats() from any thread.
class Scrubber {
 public:
  Scrubber(ObjectStore& objects, Domain domain, Clock& clock, int64_t period_s = kScrubPeriod_s,
           ScrubbedTables tables = {})
      : objects_(objects),
        domain_(domain),
        clock_(clock),
        due_after_micros_(period_s * 1'000'000 / 2),
        tables_(std::move(tables)) {}

  // Reads the next table or object that is due, if there is one near. Returns after how many
  // microseconds it wants to be called again. An object that fails is quarantined, or suspect (the
  // store's notices name it), and is no error; nor is a table that is damaged.
  absl::StatusOr<int64_t> Step(const CallContext& context = {});
  ScrubStats stats();

 private:
  // The next row that is due among the next ones; none: none of these.
  absl::StatusOr<std::optional<ObjectRow>> FindDue(int64_t now_micros);
  absl::StatusOr<int64_t> Check(const ObjectRow& row);
  // As Step; none: no table is due.
  absl::StatusOr<std::optional<int64_t>> CheckNextTable();
  int64_t EndRound(int64_t now_micros);

  ObjectStore& objects_;
  const Domain domain_;
  Clock& clock_;
  const int64_t due_after_micros_;
  const ScrubbedTables tables_;

  int64_t tables_due_ns_ = 0;               // monotonic
  size_t database_ = 0;                     // of tables_, where the look at all of them is
  uint64_t last_table_ = 0;                 // its number; 0: none yet
  std::optional<ObjectId> after_;           // the last row that was looked at in this round
  bool at_end_ = false;                     // there are no more rows in this round
  bool any_due_ = false;                    // in this round, but for what still cannot be read
  std::optional<int64_t> next_due_micros_;  // the first of those that were not due
  Mutex mutex_;
  ScrubStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
