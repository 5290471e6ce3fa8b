// The life of a cluster whose nodes repair: puts, links, nodes that fail, disks that rot and are
// replaced, pauses, restarts, maps that nodes learn late. From a seed, which a failure names.
//
// Asked after every step: repair has taken no copy where fewer than R are good, of which one may be
// rotten and not noticed yet, and not the last with the greatest revision. Asked in the end, when
// nothing fails any more: every object stands at its owners with that revision, and nowhere else.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "kvstore/base/random.h"
#include "kvstore/cluster/repair_test_util.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

const std::vector<std::string> kNodes = {"a", "b", "c", "d", "e", "f"};

class Life {
 public:
  explicit Life(uint64_t seed)
      : random_(seed), nodes_(RepairedCluster(kNodes, {}, 3), /*list_objects=*/64) {}

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFatalFailure(); ++i) {
      Happen();
      Count();
      nodes_.Step();
      Check();
    }
  }
  // Nothing fails any more.
  void CalmDown() {
    for (const auto& node : nodes_.cluster.nodes()) {
      node->faults.down = node->faults.unlikely = node->store->full = false;
      node->faults.cut_after_bytes = UINT64_MAX;
      node->faults.after_confirm = nullptr;
      // What rots unnoticed is for the scrubber to find.
      for (const auto& [id, object] : objects_) {
        (void)node->store->Verify(kDefaultDomain, id);
      }
    }
    const auto is_away = [](const auto& state) { return state.second != NodeState::kIn; };
    if (std::count_if(states_.begin(), states_.end(), is_away) > 3) states_.clear();
    nodes_.cluster.SetMap(states_);
    for (int i = 0; i < 20'000 && !nodes_.IsQuiet(); ++i) {
      Count();
      nodes_.Step();
      Check();
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(nodes_.IsQuiet());
    std::vector<ObjectRef> refs;
    for (const auto& [id, object] : objects_) {
      refs.push_back(object.ref);
      ASSERT_EQ(nodes_.cluster.Holders(id, object.touched_rev), nodes_.OwnersOf(id)) << id.Hex();
    }
    EXPECT_EQ(nodes_.CountSettled(refs), refs.size());
  }
  size_t objects() const { return objects_.size(); }
  uint64_t Sum(std::atomic<uint64_t> RepairCounters::*counter) {
    uint64_t sum = 0;
    for (const std::string& node : kNodes) sum += nodes_.at(node).counters().*counter;
    return sum;
  }

 private:
  struct Object {
    ObjectRef ref;
    std::string content;
    Revision touched_rev;  // the greatest that a good copy was given
    size_t copies = 0;     // good ones that this step must leave
  };

  const std::string& AnyNode() { return kNodes[random_.Below(kNodes.size())]; }
  MemoryNode& node(const std::string& id) { return nodes_.cluster.node(id); }
  Object* AnyObject() {
    if (objects_.empty()) return nullptr;
    auto at = objects_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random_.Below(objects_.size())));
    return &at->second;
  }
  std::optional<ObjectRow> RowAt(const std::string& at, const ObjectId& id) {
    return *node(at).store->Stat(kDefaultDomain, id);
  }

  void Happen() {
    switch (random_.Below(14)) {
      case 0:
      case 1:
      case 2:
        return Put();
      case 3:
        return Link();
      case 4:
        if (Object* object = AnyObject()) Rot(*object);
        return;
      case 5:
        if (random_.Below(4) == 0) ReplaceDisk();
        return;
      case 6:
        if (Object* object = AnyObject()) Doubt(*object);
        return;
      case 7:
        node(AnyNode()).faults.down = random_.Below(3) == 0;
        return;
      case 8:
        node(AnyNode()).store->full = random_.Below(4) == 0;
        node(AnyNode()).faults.cut_after_bytes = random_.Below(4) == 0 ? 3'000 : UINT64_MAX;
        return;
      case 9:
        if (random_.Below(3) == 0) ChangeMap();
        return;
      case 10:
        return Pause(AnyNode());
      case 11:
        if (random_.Below(4) == 0) nodes_.Restart(AnyNode());
        return;
      default:
        return nodes_.cluster.TellMap(AnyNode());
    }
  }
  // A few copies, at owners or anywhere.
  void Put() {
    Object object;
    object.content = random_.Bytes(1 + random_.Below(8'000));
    object.ref = RefOf(0, AsBytes(object.content));
    object.touched_rev = {++revision_};
    for (uint64_t i = 1 + random_.Below(3); i > 0; --i) PutAt(AnyNode(), object);
    objects_[object.ref.id] = object;
    if (random_.Below(3) == 0) Rot(object);
  }
  void PutAt(const std::string& at, const Object& object) {
    const bool was_full = node(at).store->full.exchange(false);
    nodes_.cluster.PutAt(at, object.content, object.touched_rev);
    node(at).store->full = was_full;
  }
  void Link() {
    Object* object = AnyObject();
    const std::string& at = AnyNode();
    // A commit counts on more than one copy, and not on this one alone.
    if (object == nullptr || rotten_.count({at, object->ref.id}) != 0) return;
    const Revision revision{++revision_};
    const auto linked = node(at).store->Link(kDefaultDomain, {&object->ref, 1}, revision);
    if (linked->front().present) object->touched_rev = revision;
  }
  // Whether the object is well off without what this node has of it.
  bool IsSafeWithout(const std::string& at, const Object& object) {
    std::string holders = nodes_.cluster.Holders(object.ref.id, object.touched_rev);
    std::erase(holders, at.front());
    return std::any_of(holders.begin(), holders.end(), [&](char holder) {
      return rotten_.count({std::string(1, holder), object.ref.id}) == 0;
    });
  }
  void Rot(const Object& object) {
    const std::string& at = AnyNode();
    const ObjectId& id = object.ref.id;
    if (!RowAt(at, id).has_value() || !IsSafeWithout(at, object)) return;
    // One of an object at a time: unnoticed ones count until the scrubber looks at them.
    if (RottenCopies(id) > 0) return;
    rotten_.insert({at, id});
    node(at).store->FlipBit(kDefaultDomain, id, random_.Below(object.content.size()));
    // Noticed at once, or by whoever reads it.
    if (random_.Below(4) == 0) (void)node(at).store->Verify(kDefaultDomain, id);
  }
  void ReplaceDisk() {
    const std::string& at = AnyNode();
    for (const auto& [id, object] : objects_) {
      if (!IsSafeWithout(at, object)) return;
    }
    nodes_.Wipe(at);
    std::erase_if(rotten_, [&](const auto& rotten) { return rotten.first == at; });
  }
  void Doubt(const Object& object) {
    const std::string& at = AnyNode();
    if (!IsSafeWithout(at, object)) return;
    ASSERT_TRUE(node(at).store->MarkSuspect(kDefaultDomain, object.ref.id).ok());
  }
  // Whoever asks it about drops stands still before it has the answer, for up to so long.
  void Pause(const std::string& at) {
    const auto most_ms = random_.Below(2) == 0 ? 0 : 2 * kDropAnswerCounts_ms;
    node(at).faults.after_confirm = [this, most_ms] {
      const auto paused_ms = random_.Below(static_cast<uint64_t>(most_ms) + 1);
      nodes_.cluster.clock().Advance(static_cast<int64_t>(paused_ms) * 1'000);
    };
  }
  void ChangeMap() {
    const std::string& changed = AnyNode();
    if (states_.erase(changed) == 0 && states_.size() < 3) {
      states_[changed] = NodeState::kDraining;
    }
    nodes_.cluster.MakeMap(states_);
  }

  size_t RottenCopies(const ObjectId& id) const {
    return static_cast<size_t>(std::count_if(
        rotten_.begin(), rotten_.end(), [&](const auto& rotten) { return rotten.second == id; }));
  }
  size_t GoodCopies(const ObjectId& id) {
    std::string holders = nodes_.cluster.Holders(id);
    std::erase_if(holders, [&](char holder) {
      return rotten_.count({std::string(1, holder), id}) != 0;
    });
    return holders.size();
  }
  void Count() {
    for (auto& [id, object] : objects_) {
      object.copies = std::min(GoodCopies(id), 3 - RottenCopies(id));
    }
  }
  void Check() {
    // What was rotten may be healed by now, and is then a new copy.
    std::erase_if(rotten_, [this](const auto& rotten) {
      const auto row = RowAt(rotten.first, rotten.second);
      return !row.has_value() || IsSoundAt(rotten.first, objects_.at(rotten.second));
    });
    for (auto& [id, object] : objects_) {
      ASSERT_GE(GoodCopies(id), object.copies) << id.Hex();
      ASSERT_FALSE(nodes_.cluster.Holders(id, object.touched_rev).empty()) << id.Hex();
    }
  }
  // Without telling anyone what is found.
  bool IsSoundAt(const std::string& at, const Object& object) {
    auto copy = node(at).store->Open(kDefaultDomain, object.ref.id);
    if (!copy.ok()) return false;
    std::string stored(object.content.size(), '\0');
    const MutableBytes out{reinterpret_cast<uint8_t*>(stored.data()), stored.size()};
    return (*copy)->ReadStored(0, out).ok() && stored == object.content;
  }

  SeededRandom random_;
  RepairingCluster nodes_;
  std::map<std::string, NodeState> states_;
  std::map<ObjectId, Object> objects_;
  std::set<std::pair<std::string, ObjectId>> rotten_;
  uint64_t revision_ = 0;
};

// More of them: TILEKV_LIFE_SEED=n begins at another one.
uint64_t FirstSeed() {
  const char* seed = std::getenv("TILEKV_LIFE_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

TEST(RepairerLife, NoObjectIsLostAndAllComeToTheirOwners) {
  uint64_t dropped = 0, pulled = 0, damaged = 0, raised = 0;
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Life life(seed);
    life.Run(600);
    if (!HasFatalFailure()) life.CalmDown();
    if (HasFailure()) return;
    dropped += life.Sum(&RepairCounters::dropped_objects);
    pulled += life.Sum(&RepairCounters::pulled_objects);
    damaged += life.Sum(&RepairCounters::damaged_sources);
    raised += life.Sum(&RepairCounters::raised_revisions);
  }
  // It was a life.
  EXPECT_GT(dropped, 500u);
  EXPECT_GT(pulled, 1'000u);
  EXPECT_GT(damaged, 10u);
  EXPECT_GT(raised, 10u);
}

}  // namespace
}  // namespace tilekv
