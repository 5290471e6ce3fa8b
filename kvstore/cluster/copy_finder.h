// The copies of one object on other nodes, for one reader: asked one after another, and one more
// where nothing comes for a while, until one gives what is wanted.
//
// One that is still busy with what another one was quicker to give is asked only where nothing else
// is left. Order: the copy that gave something last; owners that are likely to answer, one by one;
// all other nodes that are; those that are not; last of all copies that are suspect. A copy that
// fails is not asked again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/mutex.h"
#include "kvstore/cluster/cluster_errors.h"
#include "kvstore/cluster/cluster_parts.h"
#include "kvstore/cluster/copy_candidates.h"
#include "kvstore/cluster/race.h"

namespace tilekv {

// Thread-safe.
class CopyFinder {
 public:
  // What an attempt has given.
  struct Found {
    std::shared_ptr<ObjectReader> copy;  // its tables were checked to the id
    Buffer bytes;
  };
  // What is wanted of a copy; verified. It may run after the reader is gone, and holds what it
  // needs. Errors: DATA_LOSS is reported to the copy's node.
  using Work = std::function<absl::StatusOr<Buffer>(ObjectReader& copy)>;

  CopyFinder(ClusterParts& parts, Domain domain, const ObjectId& id);

  // NOT_FOUND: every other node has said that it has none. NODE_UNAVAILABLE names those that did
  // not answer. DATA_LOSS, or what a copy's node said, where there were copies and all have failed.
  absl::StatusOr<Found> Find(const Work& work);

 private:
  enum class State : uint8_t {
    kMayHaveIt,
    kGave,     // something, at least once
    kSuspect,  // has one that is to be read last
    kAbsent,   // has said that it has none
    kSilent,   // did not answer, or broke off
    kFailed,   // its copy is no good
  };
  // A node, and its copy once that was opened. Held by attempts that are still running.
  struct Slot {
    CopyCandidate candidate;
    std::shared_ptr<Peer> peer;  // null: it has no address
    std::atomic<int> late{0};    // attempts that go on although nobody waits for them
    Mutex mutex;                 // held while the copy is opened
    std::shared_ptr<ObjectReader> copy ABSL_GUARDED_BY(mutex);
  };
  // Lives as long as an attempt at a slot.
  struct Attempt {
    explicit Attempt(std::shared_ptr<Slot> slot) : slot(std::move(slot)) {}
    ~Attempt() {
      if (left) --slot->late;
    }
    const std::shared_ptr<Slot> slot;
    std::atomic<bool> left{false};
  };
  struct Known {
    std::shared_ptr<Slot> slot;
    State state = State::kMayHaveIt;
    absl::Status why;  // kSilent, kFailed
  };
  // One call of Find.
  struct Search {
    Search(Executor& executor, LateNodes& late) : late(late), race(executor) {}
    ~Search();  // what still runs is late from now on
    LateNodes& late;
    Race<Found> race;
    std::vector<bool> begun;
    std::map<size_t, std::weak_ptr<Attempt>> running;
    std::set<size_t> overdue;  // of which nothing came when others were asked too
    bool suspects = false;     // nothing else is left
  };

  static absl::StatusOr<Found> Try(Slot& slot, Domain domain, const ObjectId& id, bool suspects,
                                   const Work& work);
  // Starts attempts at the next nodes. False: none is left.
  bool StartMore(Search& search, const Work& work);
  std::vector<size_t> NextNodes(const Search& search);
  void Note(size_t number, const absl::Status& why, bool suspects);
  int64_t HedgeDelay_ms();
  absl::Status Exhausted();

  ClusterParts& parts_;
  const Domain domain_;
  const ObjectId id_;
  const std::shared_ptr<const Placement> placement_;  // the candidates' nodes are its
  Mutex mutex_;
  std::vector<Known> nodes_ ABSL_GUARDED_BY(mutex_);
  std::optional<size_t> last_ ABSL_GUARDED_BY(mutex_);  // that gave something
};

}  // namespace tilekv
