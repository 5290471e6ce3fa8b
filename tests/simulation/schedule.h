// One schedule: a small cluster's life, drawn from a seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvstore/base/random.h"
#include "kvstore/base/simulated_disk.h"
#include "kvstore/catalog/memory_catalog.h"
#include "kvstore/cluster/memory_cluster.h"
#include "kvstore/cluster/repairer.h"
#include "tests/simulation/simulated_network.h"

namespace tilekv::simulation {

class Schedule : public Network {
 public:
  Schedule(uint64_t seed, Bug bug);
  ~Schedule() override;

  // Steps, then a time without faults until repair is quiet. What was violated first; empty:
  // nothing.
  std::string Run();
  // What happened, a line each; what happened while an operation stood still is indented.
  const std::vector<std::string>& trace() const { return trace_; }
  uint64_t dropped_objects() const;
  uint64_t commits() const { return commits_; }
  uint64_t collected_objects() const { return collected_; }

 private:
  struct Node;
  struct Object {
    ObjectRef ref;
    std::string content;
    bool committed = false;  // else its session lives
    Revision touched_rev;    // that was acknowledged last; of the put at first
    size_t copies = 0;       // good ones that the next event must leave, of R
    size_t touched = 0;      // of these, with that revision
  };

  Bug bug() const override { return bug_; }
  Fate Sends(const std::string& from, const std::string& to, std::string_view what) override;
  void Answered(const std::string& from, const std::string& to, std::string_view what) override;
  void MayRaise(const std::string& node, const std::vector<ObjectRef>& refs) override;

  void Note(const std::string& line);
  void Meanwhile();
  void Happen();
  void Put();
  void Commit();
  void EndSession();
  void Collect();
  // How many nodes were told all of it.
  size_t RunRound(bool reach_all);
  void Repair(Node& node);
  void Crash(Node& node);
  void ReturnEmpty(Node& node);
  void ChangeMap();
  void MoveOn();
  void CalmDown();
  void CollectAll();

  Node& AnyNode();
  Object* AnyObject();
  bool IsBusy(const Node& node) const { return busy_.count(&node) != 0; }
  bool IsQuiet();
  void Restart(Node& node);
  size_t CopiesOf(const Object& object, Revision least);
  void Count(Object& object);
  void Check();
  void Violated(const std::string& what);

  const Bug bug_;
  SeededRandom random_;
  std::unique_ptr<MemoryCluster> cluster_;
  std::shared_ptr<BufferPool> pool_;
  InlineExecutor inline_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<ObjectId, Object> objects_;
  std::set<ObjectId> garbage_;  // of sessions that ended
  std::multiset<ObjectId> committing_;
  uint64_t collected_ = 0;
  std::multiset<uint64_t> sessions_;  // revisions of those that live
  MemoryCatalog catalog_;
  SimulatedDisk disk_{1};
  bool collecting_ = false;
  uint64_t rounds_ = 0;
  std::map<std::string, NodeState> states_;
  std::multiset<const Node*> busy_;  // an operation of theirs stands still
  bool calm_ = false;
  uint64_t revision_ = 1;
  uint64_t commits_ = 0;
  std::string violation_;
  std::vector<std::string> trace_;
};

}  // namespace tilekv::simulation
