// Decides who is marked out, and in again, without anyone asking: a state machine without clock,
// thread or I/O. Its owner tells it what it sees of the catalog, and with each event the time on a
// monotonic clock of its own; one thread at a time.
//
// Any number of nodes may run one: what it proposes is written by comparing the map's revision, so
// that of equal proposals one wins and the others change nothing. Whether a node answers is a hint
// for routing; nothing that is unsafe may follow from a decision of this class.
//
// 1. A node of the map that is not registered is missing from when this is *seen* on. While the
//    catalog does not answer nobody is: the leases of all nodes end together then, and when it
//    answers again each missing node has its whole time once more.
// 2. Missing for out_after: marked out, unless MayMarkOut says no. Those that are missing longest
//    come first, and each one counts for the next.
// 3. A node that was marked out so and is registered again comes back in.
// 4. Maintenance stops the timer; its end starts it from nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/placement/cluster_map.h"
#include "kvstore/placement/map_edits.h"

namespace tilekv {

struct MembershipDecision {
  struct Held {
    std::string id;
    AutomaticOut why;  // kMaintenance never: such a node has no timer
  };

  // To be written to the catalog where the map is still the one of the last OnMap. None: nothing is
  // to be done.
  std::optional<ClusterMap> proposal;
  std::vector<std::string> marked_out;
  std::vector<std::string> marked_in;
  // Missing for long enough and in, but not to be marked out. For the operator.
  std::vector<Held> held;
  // When the next node will have been missing for long enough, if nothing happens until then.
  std::optional<int64_t> next_nanos;
};

class Membership {
 public:
  // The newest map. It may come at any time and more than once.
  void OnMap(std::shared_ptr<const ClusterMap> map, int64_t now_nanos);
  // All registered nodes, as listed after the catalog was reached (again).
  void OnListing(NodeIds registered, int64_t now_nanos);
  // A registration came or went, after a listing.
  void OnRegistered(std::string_view id, int64_t now_nanos);
  void OnGone(std::string_view id, int64_t now_nanos);
  // The catalog does not answer: until the next listing nobody knows who is there.
  void OnCatalogLost();

  // What is to be done now. Asking changes nothing: until a newer map comes, the answer is the
  // same.
  MembershipDecision Decide(int64_t now_nanos) const;
  // Nodes whose timer runs, and since when.
  const std::map<std::string, int64_t, std::less<>>& missing_since_nanos() const {
    return missing_since_nanos_;
  }

 private:
  // Starts and stops timers.
  void Follow(int64_t now_nanos);
  // Nodes of the map that are not registered, under maintenance or not.
  NodeIds Missing() const;

  std::shared_ptr<const ClusterMap> map_;  // null before the first one
  std::optional<NodeIds> registered_;      // none while the catalog does not answer
  std::map<std::string, int64_t, std::less<>> missing_since_nanos_;
};

}  // namespace tilekv
