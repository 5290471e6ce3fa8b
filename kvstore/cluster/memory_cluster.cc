#include "kvstore/cluster/memory_cluster.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/copy_listing.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/object_store_conformance.h"
#include "kvstore/placement/placement_test_util.h"

namespace tilekv {
namespace {

absl::Status Unavailable(const MemoryNode& node, std::string_view what) {
  return MakeError(Reason::kNodeUnavailable, fmt::format("node {} {}", node.id, what));
}

absl::Status Reachable(const MemoryNode& node) {
  if (node.faults.down) return Unavailable(node, "is down");
  return absl::OkStatus();
}

std::string UuidOf(const MemoryNode& node) {
  return node.faults.store_uuid.empty() ? node.store->store_uuid() : node.faults.store_uuid;
}

void NoteEndOfCopy(MemoryNode& node) {
  if (std::this_thread::get_id() == node.log.watched) ++node.log.let_go_there;
}

class TestCopyWriter : public CopyWriter {
 public:
  TestCopyWriter(MemoryNode& node, ManualClock& clock, std::unique_ptr<ObjectWriter> writer,
                 Revision touched_rev)
      : node_(node), clock_(clock), writer_(std::move(writer)), touched_rev_(touched_rev) {}

  ~TestCopyWriter() override { NoteEndOfCopy(node_); }

  absl::Status Append(SharedBytes stored, std::span<const uint32_t> table) override {
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    if (node_.faults.stands_still) {
      clock_.Advance(kCopyStall_ms * 1000);
      return Unavailable(node_, "takes nothing");
    }
    bytes_ += stored.bytes.size();
    if (bytes_ > node_.faults.cut_after_bytes) return Unavailable(node_, "broke off");
    node_.log.AddPiece(stored.bytes.data());
    // What the node has against the bytes comes with its answer.
    if (refused_.ok()) refused_ = writer_->Append(stored.bytes, table);
    return absl::OkStatus();
  }
  absl::StatusOr<CopyAnswer> Finish() override {
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    TILEKV_RETURN_IF_ERROR(refused_);
    TILEKV_ASSIGN_OR_RETURN(PutOutcome outcome, writer_->Finish());
    const Revision answered{node_.faults.answers_old ? touched_rev_.value - 1 : touched_rev_.value};
    return CopyAnswer{
        .store_uuid = UuidOf(node_), .touched_rev = answered, .stored = outcome.stored};
  }

 private:
  MemoryNode& node_;
  ManualClock& clock_;
  const std::unique_ptr<ObjectWriter> writer_;
  const Revision touched_rev_;
  uint64_t bytes_ = 0;
  absl::Status refused_;
};

class TestCopyReader : public ObjectReader {
 public:
  TestCopyReader(MemoryNode& node, std::shared_ptr<ObjectReader> copy)
      : node_(node), copy_(std::move(copy)) {}
  ~TestCopyReader() override { NoteEndOfCopy(node_); }
  const ObjectRow& row() const override { return copy_->row(); }
  std::span<const LeafHash> leaves() const override { return copy_->leaves(); }
  std::span<const uint32_t> block_table() const override { return copy_->block_table(); }
  absl::Status ReadStored(uint64_t stored_offset, MutableBytes out) override {
    if (node_.faults.before_read) node_.faults.before_read();
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    if (stored_offset + out.size() > node_.faults.cut_after_bytes) {
      return Unavailable(node_, "broke off");
    }
    node_.log.read_bytes += out.size();
    if (next_.exchange(stored_offset + out.size()) != stored_offset) ++node_.log.jumps;
    return copy_->ReadStored(stored_offset, out);
  }

 private:
  MemoryNode& node_;
  const std::shared_ptr<ObjectReader> copy_;
  std::atomic<uint64_t> next_{0};
};

class TestPeer : public Peer {
 public:
  // `from` asks `node`.
  TestPeer(const std::string& from, MemoryNode& node, ManualClock& clock)
      : from_(from), node_(node), clock_(clock) {}
  const std::string& node_id() const override { return node_.id; }

  absl::StatusOr<PeerLinkAnswer> Link(Domain domain, std::span<const ObjectRef> refs,
                                      Revision session_rev, const CallContext&) override {
    ++node_.log.links;
    if (node_.faults.before_link) node_.faults.before_link();
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    TILEKV_RETURN_IF_ERROR(SessionLives(session_rev));
    PeerLinkAnswer answer{.store_uuid = UuidOf(node_)};
    TILEKV_ASSIGN_OR_RETURN(answer.results, node_.store->Link(domain, refs, session_rev));
    return answer;
  }
  absl::StatusOr<std::unique_ptr<CopyWriter>> NewCopy(const PutSpec& spec,
                                                      const CallContext&) override {
    ++node_.log.copies;
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    TILEKV_RETURN_IF_ERROR(SessionLives(spec.touched_rev));
    if (node_.faults.full) return MakeError(Reason::kStoreFull, "no room");
    TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, node_.store->NewWriter(spec));
    return std::make_unique<TestCopyWriter>(node_, clock_, std::move(writer), spec.touched_rev);
  }
  absl::StatusOr<std::shared_ptr<ObjectReader>> OpenCopy(Domain domain, const ObjectId& id,
                                                         const CallContext&) override {
    ++node_.log.opens;
    if (node_.faults.before_open) node_.faults.before_open();
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> copy, node_.store->Open(domain, id));
    return std::make_shared<TestCopyReader>(node_, std::move(copy));
  }
  absl::Status ReportDamage(Domain domain, const ObjectId& id, const CallContext&) override {
    ++node_.log.damages;
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    TILEKV_RETURN_IF_ERROR(node_.store->MarkSuspect(domain, id));
    return node_.store->Verify(domain, id).status();
  }
  absl::StatusOr<DigestAnswer> Digests(Domain domain, const PlacementVersion& placement,
                                       std::span<const uint32_t> partitions,
                                       const CallContext& context) override {
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    return node_.answers->Digests(domain, placement, partitions, context);
  }
  absl::StatusOr<PartitionPage> ListPartition(Domain domain, uint32_t partition,
                                              const std::optional<ObjectId>& after,
                                              const CallContext& context) override {
    ++node_.log.lists;
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    return node_.answers->ListPartition(domain, partition, after, context);
  }
  absl::StatusOr<OfferAnswer> Offer(Domain domain, const PlacementVersion& placement,
                                    std::span<const TouchedRef> refs,
                                    const CallContext& context) override {
    ++node_.log.offers;
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    return node_.answers->Offer(from_, domain, placement, refs, context);
  }
  absl::StatusOr<DropAnswer> ConfirmDrop(Domain domain, const PlacementVersion& placement,
                                         std::span<const TouchedRef> refs,
                                         const CallContext& context) override {
    ++node_.log.confirms;
    if (node_.faults.before_confirm) node_.faults.before_confirm();
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    absl::StatusOr<DropAnswer> answer =
        node_.answers->ConfirmDrop(domain, placement, refs, context);
    if (answer.ok()) answer->store_uuid = UuidOf(node_);
    if (node_.faults.after_confirm) node_.faults.after_confirm();
    return answer;
  }

  // --- a check of the cluster
  absl::StatusOr<PartitionPage> ListCopies(Domain domain, const std::optional<ObjectId>& after,
                                           const CallContext&) override {
    ++node_.log.lists;
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    return tilekv::ListCopies(*node_.store, domain, after);
  }
  absl::StatusOr<VerifyAnswer> VerifyCopies(Domain domain, const std::optional<ObjectId>& after,
                                            const CallContext& context) override {
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    return tilekv::VerifyCopies(*node_.store, domain, after, context);
  }

  // --- the collector's rounds
  absl::StatusOr<std::vector<bool>> HeldPartitions(Domain domain, uint32_t partition_bits,
                                                   const CallContext& context) override {
    TILEKV_RETURN_IF_ERROR(TakesRounds());
    return node_.rounds->HeldPartitions(domain, partition_bits, context);
  }
  absl::Status StoreRoundPart(const RoundPart& part, const CallContext& context) override {
    if (node_.faults.before_round_part) node_.faults.before_round_part();
    TILEKV_RETURN_IF_ERROR(TakesRounds());
    return node_.rounds->StoreRoundPart(part, context);
  }
  absl::StatusOr<SweepAnswer> SweepRound(Domain domain, const RoundName& round,
                                         const std::optional<ObjectId>& after,
                                         const CallContext& context) override {
    TILEKV_RETURN_IF_ERROR(TakesRounds());
    return node_.rounds->SweepRound(domain, round, after, context);
  }
  absl::StatusOr<SweepAnswer> CountGarbage(const RoundPart& part,
                                           const CallContext& context) override {
    TILEKV_RETURN_IF_ERROR(TakesRounds());
    return node_.rounds->CountGarbage(part, context);
  }

 private:
  absl::Status TakesRounds() const {
    TILEKV_RETURN_IF_ERROR(Reachable(node_));
    return node_.rounds != nullptr ? absl::OkStatus() : Unavailable(node_, "takes no rounds");
  }
  absl::Status SessionLives(Revision session_rev) const {
    if (!node_.faults.session_lost) {
      return node_.rounds == nullptr ? absl::OkStatus() : node_.rounds->CheckSession(session_rev);
    }
    return MakeError(Reason::kSessionLost, "the session is below the fence");
  }

  const std::string from_;
  MemoryNode& node_;
  ManualClock& clock_;
};

class UnreadableCopy : public ObjectReader {
 public:
  explicit UnreadableCopy(std::shared_ptr<ObjectReader> copy) : copy_(std::move(copy)) {}
  const ObjectRow& row() const override { return copy_->row(); }
  std::span<const LeafHash> leaves() const override { return copy_->leaves(); }
  std::span<const uint32_t> block_table() const override { return copy_->block_table(); }
  absl::Status ReadStored(uint64_t, MutableBytes) override {
    return ObjectUnreadable(row().ref, "the disk does not give it");
  }

 private:
  const std::shared_ptr<ObjectReader> copy_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectWriter>> TestStore::NewWriter(const PutSpec& spec) {
  if (full) return MakeError(Reason::kStoreFull, "no room here");
  return MemoryObjectStore::NewWriter(spec);
}

absl::StatusOr<std::shared_ptr<ObjectReader>> TestStore::Open(Domain domain, const ObjectId& id) {
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> copy, MemoryObjectStore::Open(domain, id));
  if (unreadable) return std::make_shared<UnreadableCopy>(std::move(copy));
  return copy;
}

std::shared_ptr<Peer> NodeOutlook::Find(std::string_view node_id) {
  MemoryNode& found = cluster_.node(node_id);
  TILEKV_CHECK(found.id != node_id_);
  if (found.faults.no_address) return nullptr;
  return std::make_shared<TestPeer>(node_id_, found, cluster_.clock());
}

bool NodeOutlook::IsLikelyUp(std::string_view node_id) {
  return !cluster_.node(node_id).faults.unlikely;
}

std::shared_ptr<const Placement> NodeOutlook::placement() {
  MutexLock lock(mutex_);
  return placement_;
}

void NodeOutlook::Tell(std::shared_ptr<const Placement> placement) {
  MutexLock lock(mutex_);
  placement_ = std::move(placement);
}

absl::StatusOr<std::optional<CopyRefusal>> NodeRefusals::RefusalOf(Domain domain,
                                                                   const ObjectId& id,
                                                                   Revision touched_rev) {
  if (lists == nullptr) return std::nullopt;
  return lists->RefusalOf(domain, id, touched_rev);
}

absl::Status NodeRefusals::Confirm(const CopyRefusal& refusal) {
  if (lists == nullptr) return MakeError(Reason::kVersionConflict, "there is no round");
  return lists->Confirm(refusal);
}

bool NotedCopies::Want(Domain domain, const TouchedRef& wanted, std::string_view holder) {
  if (repairer != nullptr) return repairer->Want(domain, wanted, holder);
  MutexLock lock(mutex_);
  if (noted_.size() >= room) return false;
  noted_.push_back({wanted, std::string(holder)});
  return true;
}

std::vector<NotedCopies::Noted> NotedCopies::noted() {
  MutexLock lock(mutex_);
  return noted_;
}

absl::Status TestStore::CheckWritable(uint64_t bytes) {
  if (full && bytes > 0) return MakeError(Reason::kStoreFull, "no room here");
  return absl::OkStatus();
}

MemoryCluster::MemoryCluster(const MemoryClusterOptions& options)
    : options_(options), budget_(std::make_shared<ByteBudget>(options.replica_budget_bytes)) {
  for (const std::string& id : options_.nodes) {
    auto node = std::make_unique<MemoryNode>();
    node->id = id;
    node->store = std::make_unique<TestStore>(options_.max_object_bytes, &clock_, &random_);
    node->outlook = std::make_unique<NodeOutlook>(*this, id);
    node->answers = std::make_unique<RepairAnswers>(*node->store, *node->outlook, node->wanted,
                                                    &node->refusals, clock_);
    nodes_.push_back(std::move(node));
  }
  SetMap(options_.states);
  objects_ = std::make_unique<ClusterObjects>(
      *self().store, *self().outlook, *self().outlook,
      ClusterObjectsOptions{.executor = options_.executor == nullptr ? &inline_ : options_.executor,
                            .replica_budget = budget_,
                            .pool = BufferPool::Create(4 * kMiB),
                            .clock = &clock_,
                            .random = &random_,
                            .hedge_after_ms = options_.hedge_after_ms,
                            .late_after_ms = options_.late_after_ms});
}

MemoryCluster::~MemoryCluster() = default;

MemoryNode& MemoryCluster::node(std::string_view id) {
  const auto found =
      std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& node) { return node->id == id; });
  TILEKV_CHECK(found != nodes_.end());
  return **found;
}

std::shared_ptr<const ClusterMap> MemoryCluster::FirstMap() const {
  std::vector<MapNode> nodes;
  for (const auto& node : nodes_) {
    nodes.push_back(TestNode(node->id));
    nodes.back().store_uuid = node->store->store_uuid();
  }
  return TestMap(nodes, options_.settings);
}

void MemoryCluster::MakeMap(const std::map<std::string, NodeState>& states) {
  const auto before = placement();
  ClusterMap map = before == nullptr ? *FirstMap() : before->map();
  const auto next = [&map](absl::StatusOr<ClusterMap> edited) {
    TILEKV_CHECK(edited.ok());
    map = *std::move(edited);
  };
  const ClusterSettings settings = map.settings();
  // Whatever the replication.
  next(ChangeSettings(map, {.replication = 1, .min_copies = 1}));
  const auto state_of = [&states](const std::string& id) {
    const auto found = states.find(id);
    return found == states.end() ? NodeState::kIn : found->second;
  };
  // Those that come back first, so that there is always one that is in.
  for (const auto& node : nodes_) {
    const NodeState was = map.Find(node->id)->state;
    if (was != NodeState::kIn && was != state_of(node->id)) next(UndrainNode(map, node->id));
  }
  for (const auto& node : nodes_) {
    const NodeState state = state_of(node->id);
    if (map.Find(node->id)->state == state) continue;
    if (state == NodeState::kDraining) next(DrainNode(map, node->id));
    if (state == NodeState::kOut) next(MarkOutAutomatically(map, node->id, {}));
  }
  next(ChangeSettings(map,
                      {.replication = settings.replication, .min_copies = settings.min_copies}));
  auto made = std::make_shared<const Placement>(std::make_shared<const ClusterMap>(std::move(map)));
  MutexLock lock(mutex_);
  placement_ = std::move(made);
}

void MemoryCluster::TellMap(std::string_view id) { node(id).outlook->Tell(placement()); }

void MemoryCluster::SetMap(const std::map<std::string, NodeState>& states) {
  MakeMap(states);
  for (const auto& node : nodes_) TellMap(node->id);
}

std::shared_ptr<const Placement> MemoryCluster::placement() {
  MutexLock lock(mutex_);
  return placement_;
}

std::vector<std::string> MemoryCluster::OrderOf(const ObjectId& id) {
  const auto now = placement();
  std::vector<std::string> order;
  for (NodeIndex index : now->OwnersThenOthers(now->PartitionOf(id))) {
    order.push_back(now->map().nodes()[index].id);
  }
  return order;
}

std::string MemoryCluster::ContentFor(
    uint64_t length, const std::function<bool(const std::vector<std::string>&)>& fits) {
  std::string content = TestContent(length, length);
  for (uint64_t seed = 1;; ++seed) {
    StoreLe(reinterpret_cast<uint8_t*>(content.data()), seed);
    if (fits(OrderOf(IdOf(0, AsBytes(content))))) return content;
  }
}

ObjectRef MemoryCluster::PutAt(std::string_view id, std::string_view content, Revision touched_rev,
                               const Encoding& encoding) {
  auto put =
      PutContent(*node(id).store, content, {.encoding = encoding, .touched_rev = touched_rev});
  TILEKV_CHECK(put.ok());
  return put->ref;
}

std::string MemoryCluster::Holders(const ObjectId& id, Revision least) {
  std::string holders;
  for (const auto& node : nodes_) {
    const auto row = node->store->Stat(kDefaultDomain, id);
    TILEKV_CHECK(row.ok());
    if (!row->has_value() || (*row)->state != RowState::kGood) continue;
    if ((*row)->touched_rev >= least) holders += node->id;
  }
  return holders;
}

}  // namespace tilekv
