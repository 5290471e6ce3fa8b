#include "kvstore/cluster/object_copies.h"

#include <algorithm>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/cluster_errors.h"
#include "kvstore/cluster/local_copy.h"
#include "kvstore/cluster/shared_chunk.h"
#include "kvstore/cluster/stored_pieces.h"
#include "kvstore/object/encoding.h"

namespace tilekv {
namespace {

// The first bytes of a put that are sent as one piece: whole blocks where there is a table. What
// does not fit its table goes as it is, to be refused by who checks it.
std::pair<Bytes, std::span<const uint32_t>> FirstPiece(Bytes stored,
                                                       std::span<const uint32_t> table) {
  if (table.empty()) return {stored.first(std::min(stored.size(), kTransferChunkBytes)), table};
  uint64_t bytes = 0;
  size_t blocks = 0;
  for (; blocks < table.size(); ++blocks) {
    const uint64_t block = table[blocks] & ~kRawBlockBit;
    if (block > stored.size() - bytes) return {stored, table};
    if (blocks > 0 && bytes + block > kTransferChunkBytes) break;
    bytes += block;
  }
  if (blocks == table.size()) return {stored, table};
  return {stored.first(bytes), table.first(blocks)};
}

}  // namespace

ObjectCopies::ObjectCopies(ClusterParts& parts, const PutSpec& spec, CopyCandidates candidates)
    : parts_(parts), spec_(spec), candidates_(std::move(candidates)) {
  TILEKV_CHECK(spec_.expected.has_value());
}

ObjectCopies::~ObjectCopies() {
  if (!HasPeers()) return;
  auto open = std::make_shared<std::vector<Target>>(std::move(targets_));
  parts_.options.executor->Post([open = std::move(open)] {});
}

void ObjectCopies::CountHolder(const CopyCandidate& holder, const std::string& store_uuid) {
  // Nearest first: the disk of this node.
  sources_.insert(holder.self ? sources_.begin() : sources_.end(), Holder{holder, store_uuid});
  if (std::find(stores_.begin(), stores_.end(), store_uuid) == stores_.end()) {
    stores_.push_back(store_uuid);
  }
}

absl::StatusOr<std::unique_ptr<CopyWriter>> ObjectCopies::NewCopy(const CopyCandidate& candidate) {
  if (candidate.self) return NewLocalCopy(parts_.local, spec_);
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<Peer> peer, FindPeer(parts_.peers, candidate.node->id));
  // The copy outlives the call that opens it: what bounds it is that it must move.
  return peer->NewCopy(spec_, CallContext());
}

bool ObjectCopies::CanDraw() const {
  if (!again_.empty()) return true;
  if (next_candidate_ == candidates_.nodes.size()) return false;
  return candidates_.nodes[next_candidate_].likely_up || InSight() < candidates_.min_copies();
}

CopyCandidate ObjectCopies::Draw() {
  if (again_.empty()) return candidates_.nodes[next_candidate_++];
  const CopyCandidate drawn = again_.front();
  again_.pop_front();
  return drawn;
}

void ObjectCopies::OpenTargets(size_t count) {
  while (targets_.size() < count && CanDraw()) {
    const CopyCandidate candidate = Draw();
    absl::StatusOr<std::unique_ptr<CopyWriter>> opened = NewCopy(candidate);
    if (opened.ok()) {
      targets_.push_back({candidate, *std::move(opened)});
    } else {
      GiveUp(candidate, opened.status());
    }
  }
  // Peers first: their bytes travel while this node's disk is written.
  std::stable_partition(targets_.begin(), targets_.end(),
                        [](const Target& target) { return !target.candidate.self; });
}

absl::Status ObjectCopies::Start() {
  OpenTargets(candidates_.replication());
  return targets_.size() >= candidates_.min_copies() ? absl::OkStatus() : Check();
}

bool ObjectCopies::writes_here() const {
  return std::any_of(targets_.begin(), targets_.end(),
                     [](const Target& target) { return target.candidate.self; });
}

bool ObjectCopies::HasPeers() const {
  return std::any_of(targets_.begin(), targets_.end(),
                     [](const Target& target) { return !target.candidate.self; });
}

absl::Status ObjectCopies::Append(Bytes stored, std::span<const uint32_t> table) {
  while (!stored.empty() || !table.empty()) {
    const auto [piece, entries] = FirstPiece(stored, table);
    SharedBytes shared;
    if (HasPeers()) {
      TILEKV_ASSIGN_OR_RETURN(shared, ShareBytes(parts_, piece));
    }
    TILEKV_RETURN_IF_ERROR(AppendPiece(piece, shared, entries));
    // No more bytes for what cannot succeed, or for copies from which no others can be made.
    if (targets_.empty() || targets_.size() + NotAsked() < candidates_.min_copies()) {
      return Check();
    }
    stored = stored.subspan(piece.size());
    table = table.subspan(entries.size());
  }
  return absl::OkStatus();
}

absl::Status ObjectCopies::AppendPiece(Bytes own, const SharedBytes& shared,
                                       std::span<const uint32_t> table) {
  absl::Status of_content;
  for (auto target = targets_.begin(); target != targets_.end();) {
    const bool self = target->candidate.self;
    absl::Status status = target->writer->Append(self ? SharedBytes{own, nullptr} : shared, table);
    if (status.ok()) {
      ++target;
      continue;
    }
    if (self && IsOfContent(status)) of_content = status;
    GiveUp(target->candidate, status);
    target = targets_.erase(target);
  }
  return of_content;
}

absl::Status ObjectCopies::FinishOpen() {
  std::vector<Target> targets = std::exchange(targets_, {});
  absl::Status of_content;
  // This node's disk first, which is the last of them: the others are syncing their copies by now.
  for (auto target = targets.rbegin(); target != targets.rend(); ++target) {
    const CopyCandidate& candidate = target->candidate;
    absl::StatusOr<CopyAnswer> answer = target->writer->Finish();
    if (answer.ok() && answer->touched_rev < spec_.touched_rev) {
      answer = MakeError(Reason::kInternal, "it answered with an older revision");
    }
    if (answer.ok()) {
      stored_ |= answer->stored;
      CountHolder(candidate, answer->store_uuid);
      continue;
    }
    if (candidate.self && IsOfContent(answer.status())) of_content = answer.status();
    GiveUp(candidate, answer.status());
  }
  return of_content;
}

size_t ObjectCopies::Complete() {
  if (spare_) {
    CopyCandidate self{.self = true, .likely_up = true};
    sources_.push_front({self, ""});
  }
  size_t made = 0;
  std::shared_ptr<ObjectReader> source;
  while (!enough() && !sources_.empty() && CanDraw()) {
    if (source == nullptr) {
      absl::StatusOr<std::shared_ptr<ObjectReader>> opened = OpenSource(sources_.front());
      if (!opened.ok()) {
        DropSource(opened.status());
        continue;
      }
      source = *std::move(opened);
      spec_.encoding = source->row().encoding;
    }
    OpenTargets(candidates_.replication() - stores_.size());
    if (targets_.empty()) break;
    absl::Status fed = Feed(*source);
    if (!fed.ok()) {
      for (const Target& target : targets_) again_.push_back(target.candidate);
      targets_.clear();
      source.reset();
      DropSource(fed);
      continue;
    }
    const size_t before = stores_.size();
    (void)FinishOpen();
    made += stores_.size() - before;
  }
  if (spare_counts_ && !enough()) CountHolder({.self = true}, parts_.local.store_uuid());
  return made;
}

absl::StatusOr<std::shared_ptr<ObjectReader>> ObjectCopies::OpenSource(const Holder& holder) {
  const ObjectId& id = spec_.expected->id;
  std::shared_ptr<ObjectReader> reader;
  if (holder.candidate.self) {
    TILEKV_ASSIGN_OR_RETURN(reader, parts_.local.Open(spec_.domain, id));
  } else {
    TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<Peer> peer,
                            FindPeer(parts_.peers, holder.candidate.node->id));
    TILEKV_ASSIGN_OR_RETURN(reader, peer->OpenCopy(spec_.domain, id, CallContext()));
  }
  TILEKV_RETURN_IF_ERROR(CheckCopyTables(id, *reader));
  return reader;
}

absl::Status ObjectCopies::Feed(ObjectReader& source) {
  const StoredUnits units(source.row(), source.block_table());
  for (uint64_t unit = 0; unit < units.count() && !targets_.empty();) {
    const StoredPiece piece = units.From(unit, kTransferChunkBytes);
    TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<SharedChunk> chunk,
                            NewSharedChunk(parts_, piece.stored_length));
    TILEKV_RETURN_IF_ERROR(
        ReadPiece(source, units, piece, chunk->buffer.span(), *parts_.options.pool));
    const SharedBytes shared = WholeChunk(chunk);
    // The bytes are verified: what a node has against them is its own failure.
    (void)AppendPiece(shared.bytes, shared, units.TableOf(piece));
    unit += piece.units;
  }
  return absl::OkStatus();
}

void ObjectCopies::DropSource(const absl::Status& why) {
  const Holder holder = std::move(sources_.front());
  sources_.pop_front();
  if (!IsDamagedCopy(why)) return;
  // Its copy is none. Whether another node answers for the same store does not matter.
  ++parts_.counters.damaged_copies;
  ReportDamagedCopy(parts_, holder.candidate, spec_.domain, spec_.expected->id);
  std::erase(stores_, holder.store_uuid);
  if (holder.candidate.self) spare_counts_ = false;
}

void ObjectCopies::GiveUp(const CopyCandidate& candidate, const absl::Status& why) {
  ++parts_.counters.failed_copies;
  failures_.emplace_back(candidate.node->id, why);
}

absl::Status ObjectCopies::Check() const {
  if (stores_.size() >= candidates_.min_copies()) return absl::OkStatus();
  return TooFewCopies(*spec_.expected,
                      {.stores = stores_.size(),
                       .min_copies = candidates_.min_copies(),
                       .replication = candidates_.replication(),
                       .nodes = candidates_.nodes.size()},
                      failures_);
}

}  // namespace tilekv
