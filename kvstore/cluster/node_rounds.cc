#include "kvstore/cluster/node_rounds.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr size_t kBatch = 1'024;  // deleted at once, and in one step
constexpr size_t kRowsOfStep = 64 * kBatch;
constexpr uint64_t kGreatestPrefix = std::numeric_limits<uint64_t>::max();

// The last id with this prefix: the scan goes on with the next one.
ObjectId LastWith(uint64_t prefix) {
  std::string text;
  AppendBe64(text, prefix);
  ObjectId id;
  id.bytes.fill(0xff);
  std::copy(text.begin(), text.end(), id.bytes.begin());
  return id;
}

// Where a scan begins that is to find this prefix first.
std::optional<ObjectId> JustBelow(uint64_t prefix) {
  if (prefix == 0) return std::nullopt;
  return LastWith(prefix - 1);
}

}  // namespace

// Rows of one step of a sweep.
class NodeRounds::Step {
 public:
  Step(ObjectStore& local, Domain domain, Revision fence)
      : local_(local), domain_(domain), fence_(fence) {}

  // Looks at the part's rows above `after`, until there is a whole batch or enough rows were looked
  // at. True: at all of them.
  absl::StatusOr<bool> Look(const RoundPart& part, const std::optional<ObjectId>& after,
                            size_t max_batch, size_t max_rows);

  std::vector<ObjectRow> batch;   // may be deleted
  uint64_t kept_objects = 0;      // were touched since the fence
  std::optional<ObjectId> after;  // of the last row looked at

 private:
  bool IsFull(size_t max_batch, size_t max_rows) const {
    return batch.size() >= max_batch || rows_ >= max_rows;
  }
  void Take(const RoundPart& part, const ObjectRow& row);

  ObjectStore& local_;
  const Domain domain_;
  const Revision fence_;
  size_t rows_ = 0;
};

void NodeRounds::Step::Take(const RoundPart& part, const ObjectRow& row) {
  ++rows_;
  after = row.ref.id;
  const uint64_t prefix = row.ref.id.Prefix64();
  if (std::binary_search(part.prefixes.begin(), part.prefixes.end(), prefix)) return;
  if (row.touched_rev < fence_) {
    batch.push_back(row);
  } else {
    ++kept_objects;
  }
}

absl::StatusOr<bool> NodeRounds::Step::Look(const RoundPart& part,
                                            const std::optional<ObjectId>& begin, size_t max_batch,
                                            size_t max_rows) {
  for (const PrefixRange& range : part.ranges) {
    if (begin.has_value() && range.last < begin->Prefix64()) continue;
    const std::optional<ObjectId> from = std::max(begin, JustBelow(range.first));
    bool full = false;
    TILEKV_RETURN_IF_ERROR(local_.Scan(domain_, from, [&](const ObjectRow& row) {
      if (row.ref.id.Prefix64() > range.last) return false;
      full = IsFull(max_batch, max_rows);
      if (!full) Take(part, row);
      return !full;
    }));
    if (full) return false;
  }
  return true;
}

absl::Status NodeRounds::CheckSession(Revision session_rev) {
  if (session_rev >= store_.fence()) return absl::OkStatus();
  return MakeError(Reason::kSessionLost,
                   "the upload session has ended, and a round of the collector began after it");
}

absl::StatusOr<std::optional<CopyRefusal>> NodeRounds::RefusalOf(Domain domain, const ObjectId& id,
                                                                 Revision touched_rev) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<RoundName> round,
                          store_.RefusedBy(line_id_(), domain, id, touched_rev));
  if (!round.has_value()) return std::nullopt;
  return CopyRefusal{*std::move(round)};
}

absl::Status NodeRounds::Confirm(const CopyRefusal& refusal) {
  TILEKV_RETURN_IF_ERROR(CheckLine(refusal.round));
  return CheckRound(catalog_, refusal.round);
}

absl::Status NodeRounds::CheckLine(const RoundName& round) const {
  if (round.line_id == line_id_()) return absl::OkStatus();
  return MakeError(Reason::kCatalogRewound,
                   "the collector's round is of another line of the catalog than this node's");
}

absl::StatusOr<std::vector<bool>> NodeRounds::HeldPartitions(Domain domain, uint32_t partition_bits,
                                                             const CallContext& context) {
  if (partition_bits == 0 || partition_bits > kMaxPartitionBits) {
    return MakeError(Reason::kInvalidArgument, fmt::format("{} partition bits", partition_bits));
  }
  const uint32_t shift = 64 - partition_bits;
  std::vector<bool> held(size_t{1} << partition_bits);
  std::optional<ObjectId> after;
  for (bool more = true; more;) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    more = false;
    TILEKV_RETURN_IF_ERROR(local_.Scan(domain, after, [&](const ObjectRow& row) {
      const uint64_t partition = row.ref.id.Prefix64() >> shift;
      held[partition] = true;
      const uint64_t last = partition << shift | (kGreatestPrefix >> partition_bits);
      after = LastWith(last);
      more = last != kGreatestPrefix;
      return false;
    }));
  }
  return held;
}

absl::Status NodeRounds::StoreRoundPart(const RoundPart& part, const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(context.Check());
  TILEKV_RETURN_IF_ERROR(CheckLine(part.round));
  TILEKV_RETURN_IF_ERROR(CheckRound(catalog_, part.round));
  // On a full disk too: it is what makes room.
  local_.MakeRoomForDelete();
  TILEKV_RETURN_IF_ERROR(store_.Add(part));
  TILEKV_CRASH_POINT("rounds.part_stored");
  return absl::OkStatus();
}

absl::StatusOr<SweepAnswer> NodeRounds::SweepRound(Domain domain, const RoundName& round,
                                                   const std::optional<ObjectId>& after,
                                                   const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckLine(round));
  Step step(local_, domain, round.fence);
  bool whole = true;
  for (uint64_t prefix = after ? after->Prefix64() : 0; whole;) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<const RoundPart> part,
                            store_.PartFrom(domain, round, prefix));
    if (part == nullptr) break;
    TILEKV_ASSIGN_OR_RETURN(whole, step.Look(*part, after, kBatch, kRowsOfStep));
    if (part->ranges.back().last == kGreatestPrefix) break;
    prefix = part->ranges.back().last + 1;
  }
  SweepAnswer answer{.kept_objects = step.kept_objects};
  if (!whole) answer.next_after = step.after;
  if (step.batch.empty()) return answer;
  std::vector<ObjectId> ids;
  ids.reserve(step.batch.size());
  for (const ObjectRow& row : step.batch) ids.push_back(row.ref.id);
  TILEKV_CRASH_POINT("rounds.before_check");
  TILEKV_RETURN_IF_ERROR(CheckRound(catalog_, round));
  TILEKV_ASSIGN_OR_RETURN(std::vector<bool> deleted,
                          local_.DeleteAllBelow(domain, ids, round.fence));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!deleted[i]) {
      ++answer.kept_objects;
      continue;
    }
    ++answer.deleted_objects;
    answer.deleted_bytes += step.batch[i].ref.length;
  }
  counters_.deleted_objects += answer.deleted_objects;
  counters_.deleted_bytes += answer.deleted_bytes;
  return answer;
}

absl::StatusOr<SweepAnswer> NodeRounds::CountGarbage(const RoundPart& part,
                                                     const CallContext& context) {
  TILEKV_RETURN_IF_ERROR(CheckLine(part.round));
  SweepAnswer answer;
  std::optional<ObjectId> at;
  for (bool whole = false; !whole;) {
    TILEKV_RETURN_IF_ERROR(context.Check());
    Step step(local_, part.domain, part.round.fence);
    TILEKV_ASSIGN_OR_RETURN(whole, step.Look(part, at, kBatch, kRowsOfStep));
    at = step.after;
    answer.kept_objects += step.kept_objects;
    answer.deleted_objects += step.batch.size();
    for (const ObjectRow& row : step.batch) answer.deleted_bytes += row.ref.length;
  }
  return answer;
}

}  // namespace tilekv
