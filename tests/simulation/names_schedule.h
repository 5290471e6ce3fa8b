// One schedule of names: two nodes over one catalog and one store, drawn from a seed. Sessions,
// commits that race, rounds of the collector; every call of the catalog is a point at which the
// other node may go on, and an answer of it may be lost.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kvstore/base/clock.h"
#include "kvstore/base/random.h"
#include "kvstore/catalog/memory_catalog.h"
#include "kvstore/node/local_node.h"
#include "kvstore/object/memory_object_store.h"

namespace tilekv::simulation {

enum class NamesBug {
  kNone,
  kCommitComparesSessionAndBase,  // and neither the head nor its commit id
  kFenceMissesSession,            // the collector sees no sessions in its snapshot
};

std::string_view NameOf(NamesBug bug);

class NamesSchedule {
 public:
  NamesSchedule(uint64_t seed, NamesBug bug);
  ~NamesSchedule();

  // What was violated first; empty: nothing.
  std::string Run();
  const std::vector<std::string>& trace() const { return trace_; }
  uint64_t commits() const { return acknowledged_.size(); }
  uint64_t deleted_objects() const { return deleted_objects_; }

 private:
  friend class SeamCatalog;
  struct Upload {
    v1::BeginSessionResponse session;
    ObjectRef tile, root;
  };
  struct Node {
    std::string id;
    std::unique_ptr<Catalog> catalog;
    std::unique_ptr<LocalNode> node;
    std::vector<Upload> uploads;
    bool busy = false;
  };

  // The node calls the catalog.
  void Meanwhile(const Node& caller, std::string_view what);
  // Whether the answer to a transaction of its gets lost.
  bool LosesAnswer(const Node& caller);

  void Happen();
  void Put(Node& node);
  void Commit(Node& node);
  void Collect(Node& node);
  void End(Node& node, const Upload& upload);
  void Acknowledge(uint64_t number, const Upload& upload, std::optional<uint64_t> base);
  void Check();
  void Note(const std::string& line);
  void Violated(const std::string& what);
  size_t Standing() const;
  bool IsThere(const ObjectRef& ref);

  const NamesBug bug_;
  SeededRandom random_;
  ManualClock clock_;
  MemoryObjectStore store_;
  MemoryCatalog catalog_;
  std::vector<std::unique_ptr<Node>> nodes_;
  bool calm_ = true;
  std::map<uint64_t, Upload> acknowledged_;  // by number of the version
  std::set<uint64_t> replaced_;              // bases of conditional commits that won
  uint64_t unknown_ = 0;                     // commits of which nobody knows how they ended
  uint64_t deleted_objects_ = 0;
  std::string violation_;
  std::vector<std::string> trace_;
};

}  // namespace tilekv::simulation
