#include "tests/simulation/schedule.h"

#include <algorithm>
#include <optional>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/cluster/node_rounds.h"
#include "kvstore/cluster/round_store.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_store_conformance.h"

namespace tilekv::simulation {
namespace {

constexpr size_t kReplication = 3;
const std::string kLine(16, 'l');
constexpr size_t kMostNested = 3;  // operations that stand still at once
constexpr int kMostCalmSteps = 20'000;

MemoryClusterOptions OptionsFor(uint64_t nodes) {
  MemoryClusterOptions options;
  options.nodes.clear();
  for (uint64_t i = 0; i < nodes; ++i) {
    options.nodes.emplace_back(1, static_cast<char>('a' + static_cast<char>(i)));
  }
  options.settings.partition_bits = 1;
  options.max_object_bytes = 64 * kKiB;
  return options;
}

}  // namespace

// What a node refuses by, as its lists say; with kRefusalWithoutList, by the fence where it has
// none.
class SimulatedRefusals : public CopyRefusals {
 public:
  SimulatedRefusals(Bug bug, NodeRounds& rounds, Catalog& catalog)
      : bug_(bug), rounds_(rounds), catalog_(catalog) {}
  absl::StatusOr<std::optional<CopyRefusal>> RefusalOf(Domain domain, const ObjectId& id,
                                                       Revision touched_rev) override {
    if (bug_ != Bug::kRefusalWithoutList || rounds_.fence() != Revision{}) {
      return rounds_.RefusalOf(domain, id, touched_rev);
    }
    TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, catalog_.Get(kRoundKey));
    v1::RoundRecord record;
    if (!entry.has_value() || !record.ParseFromString(entry->value)) return std::nullopt;
    const RoundName round = NameOfRound(record);
    if (touched_rev >= round.fence) return std::nullopt;
    return CopyRefusal{round};
  }
  absl::Status Confirm(const CopyRefusal& refusal) override { return rounds_.Confirm(refusal); }

 private:
  const Bug bug_;
  NodeRounds& rounds_;
  Catalog& catalog_;
};

struct Schedule::Node {
  MemoryNode* node = nullptr;
  std::unique_ptr<SimulatedOutlook> outlook;
  std::shared_ptr<ByteBudget> replica_budget, pull_budget;
  std::unique_ptr<ClusterObjects> objects;
  std::unique_ptr<RoundStore> round_store;
  std::unique_ptr<NodeRounds> rounds;
  std::unique_ptr<SimulatedRefusals> refusals;
  std::unique_ptr<Repairer> repairer;
  int disks = 1;                // that it has had
  uint64_t dropped_before = 0;  // by repairers that a crash ended
  // With kRaiseNotSynced: revisions that a crash brings back.
  std::map<ObjectId, Revision> unsynced;
};

Schedule::Schedule(uint64_t seed, Bug bug)
    : bug_(bug),
      random_(seed),
      cluster_(std::make_unique<MemoryCluster>(OptionsFor(4 + random_.Below(2)))),
      pool_(BufferPool::Create(4 * kMiB)) {
  for (const auto& memory : cluster_->nodes()) {
    auto node = std::make_unique<Node>();
    node->node = memory.get();
    node->outlook = std::make_unique<SimulatedOutlook>(static_cast<Network&>(*this), *memory);
    node->replica_budget = std::make_shared<ByteBudget>(4 * kMiB);
    node->pull_budget = std::make_shared<ByteBudget>(4 * kMiB);
    node->objects = std::make_unique<ClusterObjects>(
        *memory->store, *node->outlook, *node->outlook,
        ClusterObjectsOptions{.executor = &inline_,
                              .replica_budget = node->replica_budget,
                              .pool = pool_,
                              .clock = &cluster_->clock(),
                              .random = &random_,
                              .hedge_after_ms = 60'000,
                              .late_after_ms = 60'000});
    Restart(*node);
    nodes_.push_back(std::move(node));
  }
}

Schedule::~Schedule() = default;

void Schedule::Restart(Node& node) {
  if (node.repairer != nullptr) node.dropped_before += node.repairer->counters().dropped_objects;
  node.node->rounds = nullptr;
  node.node->refusals.lists = nullptr;
  auto opened = RoundStore::Open(*disk_.file_system(),
                                 fmt::format("/{}{}", node.node->id, node.disks), nullptr);
  TILEKV_CHECK(opened.ok());
  auto rounds =
      std::make_unique<NodeRounds>(**opened, *node.node->store, catalog_, [] { return kLine; });
  node.refusals = std::make_unique<SimulatedRefusals>(bug_, *rounds, catalog_);
  node.rounds = std::move(rounds);
  node.round_store = *std::move(opened);
  node.node->rounds = node.rounds.get();
  node.node->refusals.lists = node.refusals.get();
  node.repairer = std::make_unique<Repairer>(*node.node->store, *node.outlook, *node.outlook,
                                             RepairerOptions{.executor = &inline_,
                                                             .pull_budget = node.pull_budget,
                                                             .pool = pool_,
                                                             .refusals = &node.node->refusals,
                                                             .clock = &cluster_->clock()});
  node.node->wanted.repairer = &node.repairer->wanted();
}

std::string Schedule::Run() {
  const uint64_t steps = 30 + random_.Below(90);
  for (uint64_t i = 0; i < steps && violation_.empty(); ++i) {
    Happen();
    cluster_->clock().Advance(static_cast<int64_t>(1 + random_.Below(500'000)));
  }
  if (violation_.empty()) CalmDown();
  return violation_;
}

uint64_t Schedule::dropped_objects() const {
  uint64_t sum = 0;
  for (const auto& node : nodes_) {
    sum += node->dropped_before + node->repairer->counters().dropped_objects;
  }
  return sum;
}

void Schedule::Note(const std::string& line) {
  trace_.push_back(std::string(2 * busy_.size(), ' ') + line);
}

void Schedule::Violated(const std::string& what) {
  if (!violation_.empty()) return;
  violation_ = what;
  Note("VIOLATED: " + what);
}

// --- messages

Fate Schedule::Sends(const std::string& from, const std::string& to, std::string_view what) {
  if (calm_ || !violation_.empty()) return Fate::kArrives;
  Meanwhile();
  switch (random_.Below(20)) {
    case 0:
      Note(fmt::format("{} -> {} {}: lost", from, to, what));
      return Fate::kRequestLost;
    case 1:
      Note(fmt::format("{} -> {} {}: the answer will be lost", from, to, what));
      return Fate::kAnswerLost;
    case 2:
      Note(fmt::format("{} -> {} {}: arrives twice", from, to, what));
      return Fate::kTwice;
    default:
      Note(fmt::format("{} -> {} {}", from, to, what));
      return Fate::kArrives;
  }
}

void Schedule::Answered(const std::string& from, const std::string& to, std::string_view what) {
  if (calm_ || !violation_.empty()) return;
  Note(fmt::format("{} <- {} {}", from, to, what));
  // The longest race of all: whoever asked relies on the answer, and the others go on with newer
  // maps.
  if (what == "confirm" && busy_.size() < kMostNested && random_.Below(4) == 0) {
    MoveOn();
    Check();
  }
  Meanwhile();
}

void Schedule::MayRaise(const std::string& node, const std::vector<ObjectRef>& refs) {
  if (bug_ != Bug::kRaiseNotSynced) return;
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const auto& known) { return known->node->id == node; });
  for (const ObjectRef& ref : refs) {
    const auto row = *(*found)->node->store->Stat(kDefaultDomain, ref.id);
    if (row.has_value()) (*found)->unsynced.try_emplace(ref.id, row->touched_rev);
  }
}

// What happens while a message is on its way: mostly nothing, now and then much.
void Schedule::Meanwhile() {
  if (busy_.size() >= kMostNested || random_.Below(6) != 0) return;
  for (uint64_t i = 1 + random_.Below(6); i > 0 && violation_.empty(); --i) Happen();
}

// --- events

void Schedule::Happen() {
  switch (random_.Below(18)) {
    case 0:
    case 1:
      Put();
      break;
    case 2:
    case 3:
      Commit();
      break;
    case 4: {
      Node& node = AnyNode();
      node.node->faults.down = random_.Below(3) == 0;
      Note(fmt::format("{} is {}", node.node->id, node.node->faults.down ? "away" : "here"));
      break;
    }
    case 5:
      Crash(AnyNode());
      break;
    case 6:
      ReturnEmpty(AnyNode());
      break;
    case 7:
      ChangeMap();
      break;
    case 8:
    case 9: {
      Node& node = AnyNode();
      Note(fmt::format("{} learns the newest map", node.node->id));
      cluster_->TellMap(node.node->id);
      break;
    }
    case 10:
      EndSession();
      break;
    case 11:
      Collect();
      break;
    default:
      Repair(AnyNode());
  }
  Check();
}

// A new map that all learn, and repair by it for a while.
void Schedule::MoveOn() {
  ChangeMap();
  Note("all learn the newest map, and repair");
  for (const auto& node : nodes_) cluster_->TellMap(node->node->id);
  for (uint64_t i = 6 + random_.Below(12); i > 0 && violation_.empty(); --i) {
    Repair(AnyNode());
    cluster_->clock().Advance(static_cast<int64_t>(random_.Below(400'000)));
    Check();
  }
}

void Schedule::Put() {
  Node& node = AnyNode();
  if (node.node->faults.down || objects_.size() >= 6) return;
  Object object;
  object.content = random_.Bytes(1 + random_.Below(300));
  object.touched_rev = {++revision_};
  Note(fmt::format("{} puts an object at revision {}", node.node->id, revision_));
  const auto busy = busy_.insert(&node);
  sessions_.insert(object.touched_rev.value);
  const auto put = PutContent(*node.objects, object.content, {.touched_rev = object.touched_rev});
  busy_.erase(busy);
  object.ref = RefOf(0, AsBytes(object.content));
  if (!put.ok()) {
    sessions_.erase(sessions_.find(object.touched_rev.value));
    garbage_.insert(object.ref.id);
    return Note(fmt::format("the put fails: {}", put.status().ToString()));
  }
  Note(fmt::format("it is {}", object.ref.id.Hex().substr(0, 6)));
  Count(object);
  objects_.emplace(object.ref.id, object);
}

// As a commit relies on an object: a session's link at min_copies stores, and the answer.
void Schedule::Commit() {
  Node& node = AnyNode();
  Object* object = AnyObject();
  if (object == nullptr || node.node->faults.down) return;
  // A commit carries on the session of the put, or it is one of a later session.
  const Revision revision = object->committed ? Revision{++revision_} : object->touched_rev;
  const std::string name = object->ref.id.Hex().substr(0, 6);
  Note(fmt::format("{} commits {} at revision {}", node.node->id, name, revision.value));
  if (bug_ != Bug::kCommitWithoutFinalCount || object->committed) {
    const auto busy = busy_.insert(&node);
    const auto session = sessions_.insert(revision.value);
    committing_.insert(object->ref.id);
    const auto linked = node.objects->Link(kDefaultDomain, {&object->ref, 1}, revision);
    committing_.erase(committing_.find(object->ref.id));
    sessions_.erase(session);
    busy_.erase(busy);
    if (!linked.ok() || !linked->front().present) return Note("the commit is refused");
  }
  Note("the commit is acknowledged");
  ++commits_;
  if (!std::exchange(object->committed, true)) {
    sessions_.erase(sessions_.find(object->touched_rev.value));
  }
  object->touched_rev = std::max(object->touched_rev, revision);
  Count(*object);
  if (object->copies == 0) Violated(fmt::format("{} was committed and nobody has it", name));
}

// Without a commit: what it has put is garbage.
void Schedule::EndSession() {
  Object* object = AnyObject();
  if (object == nullptr || object->committed || committing_.count(object->ref.id) != 0) return;
  Note(fmt::format("the session of {} ends", object->ref.id.Hex().substr(0, 6)));
  sessions_.erase(sessions_.find(object->touched_rev.value));
  garbage_.insert(object->ref.id);
  objects_.erase(object->ref.id);
}

void Schedule::Collect() {
  if (std::exchange(collecting_, true)) return;
  RunRound(/*reach_all=*/false);
  collecting_ = false;
}

// A round as the collector runs it: what is committed is in use, the oldest living session is the
// fence. Nodes that are away are not told.
size_t Schedule::RunRound(bool reach_all) {
  const Revision snapshot{++revision_};
  const Revision fence{sessions_.empty() ? snapshot.value + 1 : *sessions_.begin()};
  const RoundName round{fmt::format("round {:010}", ++rounds_), kLine, snapshot, fence};
  Note(fmt::format("a round of the collector at revision {}, fence {}", snapshot.value,
                   fence.value));
  v1::RoundRecord record;
  record.set_value(round.id);
  record.set_line_id(round.line_id);
  record.set_snapshot_rev(snapshot.value);
  record.set_fence(fence.value);
  record.set_state(v1::ROUND_STATE_IN_FORCE);
  TILEKV_CHECK(catalog_
                   .Txn({.compares = {},
                         .writes = {CatalogWrite::Put(kRoundKey, record.SerializeAsString())}})
                   .ok());
  RoundPart part{.round = round, .ranges = {{0, UINT64_MAX}}, .prefixes = {}};
  for (const auto& [id, object] : objects_) {
    if (object.committed) part.prefixes.push_back(id.Prefix64());
  }
  std::sort(part.prefixes.begin(), part.prefixes.end());
  size_t told = 0;
  for (const auto& node : nodes_) {
    if (node->node->faults.down || (!reach_all && random_.Below(4) == 0)) continue;
    if (!calm_) Meanwhile();
    // A crash meanwhile may have taken another object's place.
    if (!node->rounds->StoreRoundPart(part, {}).ok()) continue;
    if (!calm_) Meanwhile();
    const auto swept = node->rounds->SweepRound(kDefaultDomain, round, std::nullopt, {});
    if (!swept.ok()) continue;
    collected_ += swept->deleted_objects;
    Note(fmt::format("{} sweeps {} objects", node->node->id, swept->deleted_objects));
    Check();
    ++told;
  }
  return told;
}

void Schedule::Repair(Node& node) {
  if (node.node->faults.down || IsBusy(node)) return;
  Note(fmt::format("{} repairs", node.node->id));
  const auto busy = busy_.insert(&node);
  const absl::StatusOr<int64_t> wait_micros = node.repairer->Step();
  busy_.erase(busy);
  node.outlook->LetGo();
  if (!wait_micros.ok()) Violated(fmt::format("repair: {}", wait_micros.status().ToString()));
}

void Schedule::Crash(Node& node) {
  if (IsBusy(node)) return;
  Note(fmt::format("{} crashes and starts again", node.node->id));
  TestStore& store = *node.node->store;
  for (const auto& [id, revision] : std::exchange(node.unsynced, {})) {
    const auto row = *store.Stat(kDefaultDomain, id);
    const auto object = objects_.find(id);
    if (!row.has_value() || object == objects_.end() || row->touched_rev <= revision) continue;
    const TouchedRef seen{row->ref, row->touched_rev};
    TILEKV_CHECK(store.DropUnchanged(kDefaultDomain, {&seen, 1}, [] { return true; }).ok());
    cluster_->PutAt(node.node->id, object->second.content, revision);
  }
  Restart(node);
}

// With a new disk, where no committed object needs the old one: more would be more failures than
// copies. Not while an operation stands still: an owner's word about a drop counts on its disk.
void Schedule::ReturnEmpty(Node& node) {
  if (!busy_.empty()) return;
  TestStore& store = *node.node->store;
  for (const auto& [id, object] : objects_) {
    const auto row = *store.Stat(kDefaultDomain, id);
    const size_t here = row.has_value() && row->touched_rev >= object.touched_rev ? 1 : 0;
    if (object.committed && CopiesOf(object, object.touched_rev) < 1 + here) return;
  }
  Note(fmt::format("{} returns empty", node.node->id));
  std::vector<ObjectId> ids;
  for (const auto& [id, object] : objects_) ids.push_back(id);
  ids.insert(ids.end(), garbage_.begin(), garbage_.end());
  TILEKV_CHECK(store.DeleteAllBelow(kDefaultDomain, ids, {UINT64_MAX}).ok());
  node.unsynced.clear();
  ++node.disks;
  Restart(node);
  for (auto& [id, object] : objects_) Count(object);
}

void Schedule::ChangeMap() {
  const std::string& id = AnyNode().node->id;
  if (states_.erase(id) == 0) {
    // R nodes stay in.
    if (states_.size() + kReplication >= nodes_.size()) states_.clear();
    // One of so few is out at most: more do not go out by themselves.
    const bool one_is_out = std::any_of(states_.begin(), states_.end(), [](const auto& state) {
      return state.second == NodeState::kOut;
    });
    const bool out = !one_is_out && random_.Below(2) == 0;
    states_[id] = out ? NodeState::kOut : NodeState::kDraining;
  }
  cluster_->MakeMap(states_);
  std::string text;
  for (const auto& [name, state] : states_) {
    text += fmt::format(" {} {}", name, state == NodeState::kOut ? "out" : "draining");
  }
  Note(fmt::format("a new map:{}", text.empty() ? " all in" : text));
}

// --- what must hold

Schedule::Node& Schedule::AnyNode() { return *nodes_[random_.Below(nodes_.size())]; }

Schedule::Object* Schedule::AnyObject() {
  if (objects_.empty()) return nullptr;
  auto at = objects_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random_.Below(objects_.size())));
  return &at->second;
}

size_t Schedule::CopiesOf(const Object& object, Revision least) {
  return cluster_->Holders(object.ref.id, least).size();
}

void Schedule::Count(Object& object) {
  object.copies = std::min(CopiesOf(object, {}), kReplication);
  object.touched = std::min(CopiesOf(object, object.touched_rev), kReplication);
}

void Schedule::Check() {
  for (auto& [id, object] : objects_) {
    const size_t copies = CopiesOf(object, {});
    const size_t touched = CopiesOf(object, object.touched_rev);
    if (copies < object.copies || touched < object.touched) {
      Violated(fmt::format("{} has {} copies, {} of them at revision {}: it had {} and {}",
                           id.Hex().substr(0, 6), copies, touched, object.touched_rev.value,
                           object.copies, object.touched));
    }
    Count(object);
  }
}

bool Schedule::IsQuiet() {
  return std::all_of(nodes_.begin(), nodes_.end(), [this](const auto& node) {
    const RepairProgress progress = node->repairer->progress();
    return progress.placement == cluster_->placement()->map().placement_version() &&
           progress.complete && progress.objects_to_pull == 0 && progress.foreign_partitions == 0;
  });
}

void Schedule::CalmDown() {
  calm_ = true;
  Note("nothing fails any more");
  for (const auto& node : nodes_) node->node->faults.down = false;
  cluster_->SetMap(states_);
  for (const auto& node : nodes_) Restart(*node);
  // What a round has missed at one node others may refuse for ever: only that round's own record,
  // and no later one, lets it go. So the next one comes first, as it does in time.
  RunRound(/*reach_all=*/true);
  for (int i = 0; i < kMostCalmSteps && violation_.empty() && !IsQuiet(); ++i) {
    int64_t least_wait = 1'000'000;
    for (const auto& node : nodes_) {
      const absl::StatusOr<int64_t> wait_micros = node->repairer->Step();
      node->outlook->LetGo();
      TILEKV_CHECK(wait_micros.ok());
      least_wait = std::min(least_wait, *wait_micros);
    }
    cluster_->clock().Advance(std::max<int64_t>(least_wait, 1'000));
    Check();
  }
  if (violation_.empty() && !IsQuiet()) Violated("repair never comes to rest");
  const auto placement = cluster_->placement();
  for (const auto& [id, object] : objects_) {
    // What was never committed may have gone with the disks of those who had it.
    if (!object.committed && CopiesOf(object, {}) == 0) continue;
    std::string owners;
    for (NodeIndex owner : placement->OwnersOf(placement->PartitionOf(id))) {
      owners += placement->map().nodes()[owner].id;
    }
    std::sort(owners.begin(), owners.end());
    const Revision least = object.committed ? object.touched_rev : Revision{};
    const std::string at = cluster_->Holders(id, least);
    const std::string anywhere = cluster_->Holders(id);
    if (at != owners || anywhere != owners) {
      Violated(fmt::format("{} is at {}, with its revision at {}; its owners are {}",
                           id.Hex().substr(0, 6), anywhere, at, owners));
    }
  }
  if (violation_.empty()) CollectAll();
}

// Every session has ended, every node is told: what is not committed goes from everywhere.
void Schedule::CollectAll() {
  for (auto at = objects_.begin(); at != objects_.end();) {
    if (!at->second.committed) garbage_.insert(at->first);
    at = at->second.committed ? std::next(at) : objects_.erase(at);
  }
  sessions_.clear();
  if (RunRound(/*reach_all=*/true) != nodes_.size()) Violated("a round does not reach all nodes");
  for (const ObjectId& id : garbage_) {
    const std::string at = cluster_->Holders(id);
    if (at.empty()) continue;
    Violated(fmt::format("{} is garbage, and still at {}", id.Hex().substr(0, 6), at));
  }
}

}  // namespace tilekv::simulation
