// What a node is to pull: the objects that are known in the fewest copies first, then in the order
// in which they were noted. Who offers one does not say how many copies there are; two are assumed,
// so that rebalancing does not come before what has one copy left. Bounded: what finds no room is
// found, or offered, again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/mutex.h"
#include "kvstore/cluster/repair_answers.h"

namespace tilekv {

struct Pull {
  TouchedRef wanted;
  std::vector<std::string> holders;  // nodes that have said that they hold it
  int tries = 0;                     // that found no copy
};

struct PullFigures {
  uint64_t objects = 0;        // on the list, those that are being pulled included
  uint64_t content_bytes = 0;  // of these
  uint64_t missing = 0;        // of these, those for which no copy was found when they were tried
  std::optional<int64_t> oldest_nanos;  // since when the first of these is there
};

// Thread-safe.
class PullList : public WantedCopies {
 public:
  PullList(Domain domain, Clock& clock, size_t most = kMaxRepairList)
      : domain_(domain), clock_(clock), most_(most) {}

  // As Add, of one holder; but offers fill half of the list at most.
  bool Want(Domain domain, const TouchedRef& wanted, std::string_view holder) override;
  // Notes it, or adds to what is noted. None of `holders`: nobody is known to have it; then it
  // comes last. False: there is no room.
  bool Add(const TouchedRef& wanted, std::span<const std::string> holders);
  bool HasRoom();

  // The next one whose time has come; it stays on the list until one of the two below.
  std::optional<Pull> Next();
  void Done(const ObjectId& id);
  // No copy was found. It is due again later, each time after longer.
  void TryLater(const ObjectId& id);
  // It was not to be done just now.
  void PutBack(const ObjectId& id);

  bool HasDue();
  // Whether anything is due or is being pulled: all but what was tried in vain.
  bool HasFresh();
  // When the next one is due that is not now.
  std::optional<int64_t> NextDue_nanos();
  PullFigures figures();
  void Clear();

 private:
  struct Entry {
    Pull pull;
    uint64_t number = 0;      // in the order of coming
    int64_t since_nanos = 0;  // on the list
    int64_t due_nanos = 0;
    bool counted = false;  // its copies were, not only offered
    bool under_way = false;
  };
  using Rank = std::tuple<size_t, uint64_t, ObjectId>;

  bool AddWithin(size_t most, const TouchedRef& wanted, std::span<const std::string> holders,
                 bool counted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const ObjectId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Rank RankOf(const Entry& entry);
  void Queue(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unqueue(const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves those whose time has come to those that are due.
  void TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Domain domain_;
  Clock& clock_;
  const size_t most_;
  Mutex mutex_;
  std::map<ObjectId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::set<Rank> due_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<int64_t, ObjectId>> later_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t content_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t missing_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tilekv
