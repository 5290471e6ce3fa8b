// What a simulated node sees of its cluster: every message to another node is a point at which the
// schedule decides what comes next.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/cluster/memory_cluster.h"

namespace tilekv::simulation {

// A rule of the product that is broken on purpose.
enum class Bug {
  kNone,
  kDropWithoutEqualMaps,     // neither who asks nor who answers compares versions of the map
  kDropLosesTouchedRev,      // owners confirm a drop, and keep their older revision
  kCommitWithoutFinalCount,  // a commit believes what the puts were answered
  kDigestsOfIdsOnly,         // and not of revisions
  kRaiseNotSynced,           // a raised revision is gone after a crash
  kRefusalWithoutList,       // a node refuses by a round's fence alone, whose list it does not have
};

// Empty: there is none of that name. Names are those of BugNames().
std::optional<Bug> BugOf(std::string_view name);
std::string_view NameOf(Bug bug);
const std::vector<Bug>& AllBugs();

// Of one message.
enum class Fate { kArrives, kRequestLost, kAnswerLost, kTwice };

// Who decides. Called in the one thread that there is, while the operation that sends stands still:
// other operations may run, and end, before they return.
class Network {
 public:
  virtual ~Network() = default;
  virtual Bug bug() const = 0;
  virtual Fate Sends(const std::string& from, const std::string& to, std::string_view what) = 0;
  virtual void Answered(const std::string& from, const std::string& to, std::string_view what) = 0;
  // The node is about to look at these rows, and may raise their revisions.
  virtual void MayRaise(const std::string& node, const std::vector<ObjectRef>& refs) = 0;
};

// The peers of one node, and its view of the map.
class SimulatedOutlook : public Peers, public ClusterView {
 public:
  SimulatedOutlook(Network& network, MemoryNode& node) : network_(network), node_(node) {}
  std::shared_ptr<Peer> Find(std::string_view node_id) override;
  bool IsLikelyUp(std::string_view node_id) override { return node_.outlook->IsLikelyUp(node_id); }
  const std::string& node_id() const override { return node_.id; }
  std::shared_ptr<const Placement> placement() override;

  MemoryNode& node() { return node_; }
  // With kDropWithoutEqualMaps: newer maps are not looked at until the step ends.
  void Hold() { held_ = node_.outlook->placement(); }
  void LetGo() { held_ = nullptr; }

 private:
  Network& network_;
  MemoryNode& node_;
  std::shared_ptr<const Placement> held_;
};

}  // namespace tilekv::simulation
