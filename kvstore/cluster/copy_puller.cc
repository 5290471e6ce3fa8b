#include "kvstore/cluster/copy_puller.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/cluster/cluster_errors.h"
#include "kvstore/cluster/stored_pieces.h"

namespace tilekv {
namespace {

bool IsOfRoom(const absl::Status& status) {
  const Reason reason = GetReason(status);
  return reason == Reason::kStoreFull || reason == Reason::kStoreFailed;
}

// It does not answer, or has no time.
bool IsOfNode(const absl::Status& status) {
  const Reason reason = GetReason(status);
  return reason == Reason::kNodeUnavailable || reason == Reason::kOverloaded ||
         reason == Reason::kDeadlineExceeded;
}

}  // namespace

absl::StatusOr<bool> CopyPuller::IsHere() {
  const Domain domain = parts_.options.domain;
  const ObjectRef& ref = pull_.wanted.ref;
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRow> row, parts_.local.Stat(domain, ref.id));
  row_here_ = row.has_value();
  if (!row.has_value() || row->state == RowState::kQuarantined) return false;
  if (row->state == RowState::kSuspect) {
    // It may be that only a reader was wrong.
    TILEKV_ASSIGN_OR_RETURN(bool good, parts_.local.Verify(domain, ref.id));
    if (!good) return false;
  }
  TILEKV_ASSIGN_OR_RETURN(std::vector<LinkResult> linked,
                          parts_.local.LinkEach(domain, {&pull_.wanted, 1}));
  return bool{linked.front().present};
}

std::vector<std::string> CopyPuller::NodesToAsk() const {
  std::vector<std::string> nodes = pull_.holders;
  if (nodes.empty()) {
    const Placement& placement = *own_.placement;
    for (NodeIndex node : placement.OwnersThenOthers(placement.PartitionOf(pull_.wanted.ref.id))) {
      if (node != own_.self) nodes.push_back(own_.NameOf(node));
    }
  } else {
    // So that not all that is pulled comes from the same node.
    const size_t first = LoadLe<uint64_t>(pull_.wanted.ref.id.bytes.data() + 16) % nodes.size();
    std::rotate(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(first), nodes.end());
  }
  std::stable_partition(nodes.begin(), nodes.end(), [this](const std::string& node) {
    return parts_.peers.IsLikelyUp(node) && !parts_.late.Has(node);
  });
  return nodes;
}

CopyPuller::Attempt CopyPuller::Copy(ObjectReader& source) {
  const ObjectRow& row = source.row();
  const PutSpec spec{.domain = parts_.options.domain,
                     .level = row.ref.level,
                     .expected = row.ref,
                     .encoding = row.encoding,
                     .touched_rev = std::max(pull_.wanted.touched_rev, row.touched_rev)};
  absl::StatusOr<std::unique_ptr<ObjectWriter>> writer = parts_.local.NewWriter(spec);
  if (!writer.ok()) return {.disk = writer.status()};
  // What the writer has against the content is the source's doing.
  const auto of_writer = [](const absl::Status& status) -> Attempt {
    return IsOfContent(status) ? Attempt{.source = status} : Attempt{.disk = status};
  };
  const StoredUnits units(row, source.block_table());
  for (uint64_t unit = 0; unit < units.count();) {
    const StoredPiece piece = units.From(unit, kTransferChunkBytes);
    absl::StatusOr<Reservation> reserved =
        parts_.options.pull_budget->Acquire(BufferPool::CapacityFor(piece.stored_length), context_);
    if (!reserved.ok()) return {.source = reserved.status()};
    Buffer buffer = parts_.options.pool->Get(piece.stored_length);
    absl::Status read = source.ReadStored(piece.stored_offset, buffer.span());
    if (!read.ok()) return {.source = read};
    absl::Status written = (*writer)->Append(buffer.span(), units.TableOf(piece));
    if (!written.ok()) return of_writer(written);
    unit += piece.units;
  }
  const absl::StatusOr<PutOutcome> put = (*writer)->Finish();
  if (!put.ok()) return of_writer(put.status());
  ++parts_.counters.pulled_objects;
  parts_.counters.pulled_bytes += row.stored_length;
  return {};
}

CopyPuller::Attempt CopyPuller::PullFrom(Peer& peer, bool suspects) {
  const ObjectId& id = pull_.wanted.ref.id;
  auto opened = peer.OpenCopy(parts_.options.domain, id, context_);
  if (!opened.ok()) return {.source = opened.status()};
  ObjectReader& source = **opened;
  if (absl::Status tables = CheckCopyTables(id, source); !tables.ok()) return {.source = tables};
  if (source.row().state != RowState::kGood && !suspects) return {.suspect = true};
  if (CopyRefusals* refusals = parts_.options.refusals; refusals != nullptr) {
    const Revision touched_rev = std::max(pull_.wanted.touched_rev, source.row().touched_rev);
    auto refusal = refusals->RefusalOf(parts_.options.domain, id, touched_rev);
    if (!refusal.ok()) return {.disk = refusal.status()};
    if (refusal->has_value()) return {.garbage = true};
  }
  parts_.throttle.Pay(source.row().stored_length);
  return Copy(source);
}

void CopyPuller::Report(const std::string& node_id) {
  ++parts_.counters.damaged_sources;
  std::shared_ptr<Peer> peer = parts_.peers.Find(node_id);
  if (peer == nullptr) return;
  parts_.options.executor->Post(
      [peer = std::move(peer), domain = parts_.options.domain, id = pull_.wanted.ref.id] {
        (void)peer->ReportDamage(domain, id, CallContext());
      });
}

std::optional<PullOutcome> CopyPuller::TryAll(const std::vector<std::string>& nodes,
                                              bool suspects) {
  for (const std::string& node_id : nodes) {
    if (!context_.Check().ok()) return PullOutcome::kEnded;
    if (node_id == parts_.view.node_id()) continue;
    std::shared_ptr<Peer> peer = parts_.peers.Find(node_id);
    // Who gave nothing just now is not waited for again.
    if (peer == nullptr || parts_.late.Has(node_id)) continue;
    const Attempt attempt = PullFrom(*peer, suspects);
    if (attempt.ok()) return PullOutcome::kHere;
    if (attempt.garbage) return PullOutcome::kGone;
    if (attempt.suspect) later_.push_back(node_id);
    if (IsOfRoom(attempt.disk)) return PullOutcome::kNoRoom;
    if (!attempt.disk.ok()) return PullOutcome::kNoSource;
    if (attempt.suspect) continue;
    if (IsOfContent(attempt.source)) {
      if (!suspects) Report(node_id);  // a suspect copy has been reported
    } else if (GetReason(attempt.source) == Reason::kNotFound) {
      ++absent_;
    } else if (IsOfNode(attempt.source)) {
      parts_.late.Add(node_id);
    }
  }
  return std::nullopt;
}

PullOutcome CopyPuller::Run() {
  if (!own_.OwnsObject(pull_.wanted.ref.id)) return PullOutcome::kNotOwned;
  const absl::StatusOr<bool> here = IsHere();
  if (here.ok() && *here) return PullOutcome::kHere;
  const std::vector<std::string> nodes = NodesToAsk();
  if (const auto outcome = TryAll(nodes, /*suspects=*/false)) return *outcome;
  if (const auto outcome = TryAll(std::exchange(later_, {}), /*suspects=*/true)) return *outcome;
  const bool all = own_.self.has_value() && absent_ + 1 == own_.map().nodes().size();
  return all && here.ok() && !row_here_ ? PullOutcome::kGone : PullOutcome::kNoSource;
}

}  // namespace tilekv
