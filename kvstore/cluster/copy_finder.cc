#include "kvstore/cluster/copy_finder.h"

#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/cluster/stored_pieces.h"
#include "kvstore/object/object_errors.h"

namespace tilekv {
namespace {

constexpr size_t kAskedAtOnce = 16;
constexpr char kSuspectUrl[] = "tilekv.v1/suspect-copy";

// There is a copy, to be read when there is no other.
absl::Status IsSuspect(const ObjectRef& ref) {
  absl::Status status = ObjectUnreadable(ref, "a reader has reported its copy as damaged");
  status.SetPayload(kSuspectUrl, absl::Cord());
  return status;
}

}  // namespace

CopyFinder::CopyFinder(ClusterParts& parts, Domain domain, const ObjectId& id)
    : parts_(parts), domain_(domain), id_(id), placement_(parts.view.placement()) {
  for (const CopyCandidate& candidate :
       CandidatesFor(parts, placement_, id, LateOnes::kUnlikely).nodes) {
    if (candidate.self) continue;
    auto slot = std::make_shared<Slot>();
    slot->candidate = candidate;
    slot->peer = parts.peers.Find(candidate.node->id);
    MutexLock lock(mutex_);
    nodes_.push_back({.slot = std::move(slot)});
  }
}

absl::StatusOr<CopyFinder::Found> CopyFinder::Try(Slot& slot, Domain domain, const ObjectId& id,
                                                  bool suspects, const Work& work) {
  Found found;
  {
    MutexLock lock(slot.mutex);
    if (slot.copy == nullptr) {
      if (slot.peer == nullptr) return MakeError(Reason::kNodeUnavailable, "it has no address");
      TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<ObjectReader> copy,
                              slot.peer->OpenCopy(domain, id, CallContext()));
      TILEKV_RETURN_IF_ERROR(CheckCopyTables(id, *copy));
      slot.copy = std::move(copy);
    }
    found.copy = slot.copy;
  }
  const ObjectRow& row = found.copy->row();
  if (row.state != RowState::kGood && !suspects) return IsSuspect(row.ref);
  TILEKV_ASSIGN_OR_RETURN(found.bytes, work(*found.copy));
  return found;
}

std::vector<size_t> CopyFinder::NextNodes(const Search& search) {
  MutexLock lock(mutex_);
  std::vector<size_t> owners, likely, others, busy, suspects;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Known& known = nodes_[i];
    if (known.state == State::kSuspect && search.suspects) suspects.push_back(i);
    if (search.begun[i]) continue;
    if (known.state != State::kMayHaveIt && known.state != State::kGave) continue;
    const CopyCandidate& candidate = known.slot->candidate;
    if (known.slot->late > 0) {
      busy.push_back(i);
      continue;
    }
    if (last_ == i) return {i};
    (!candidate.likely_up ? others : candidate.owner ? owners : likely).push_back(i);
  }
  if (!owners.empty()) return {owners.front()};
  if (likely.empty() && others.empty() && !busy.empty()) {
    return search.running.empty() ? busy : std::vector<size_t>();
  }
  std::vector<size_t>& next = !likely.empty() ? likely : !others.empty() ? others : suspects;
  if (next.size() > kAskedAtOnce) next.resize(kAskedAtOnce);
  return next;
}

CopyFinder::Search::~Search() {
  for (const auto& [number, running] : running) {
    std::shared_ptr<Attempt> attempt = running.lock();
    if (attempt == nullptr) continue;
    if (overdue.count(number) > 0) late.Add(attempt->slot->candidate.node->id);
    ++attempt->slot->late;
    attempt->left = true;
  }
}

bool CopyFinder::StartMore(Search& search, const Work& work) {
  std::vector<size_t> next = NextNodes(search);
  if (next.empty() && search.running.empty() && !search.suspects) {
    search.suspects = true;
    next = NextNodes(search);
  } else if (search.suspects) {
    return false;  // they are asked at once
  }
  for (size_t number : next) {
    search.begun[number] = true;
    ++parts_.counters.peer_reads;
    std::shared_ptr<Attempt> attempt;
    {
      MutexLock lock(mutex_);
      attempt = std::make_shared<Attempt>(nodes_[number].slot);
    }
    search.running[number] = attempt;
    search.race.Start(number,
                      [attempt, work, domain = domain_, id = id_,
                       suspects = search.suspects]() -> absl::StatusOr<Found> {
                        return Try(*attempt->slot, domain, id, suspects, work);
                      });
  }
  return !next.empty();
}

int64_t CopyFinder::HedgeDelay_ms() {
  const int64_t least = parts_.options.hedge_after_ms;
  return least +
         static_cast<int64_t>(parts_.options.random->Below(static_cast<uint64_t>(least) / 2 + 1));
}

absl::StatusOr<CopyFinder::Found> CopyFinder::Find(const Work& work) {
  Search search(*parts_.options.executor, parts_.late);
  {
    MutexLock lock(mutex_);
    search.begun.resize(nodes_.size());
  }
  bool may_hedge = true;
  while (!search.running.empty() || StartMore(search, work)) {
    std::optional<Race<Found>::Ended> ended;
    if (may_hedge) ended = search.race.WaitFor(HedgeDelay_ms());
    if (!ended.has_value()) {
      if (may_hedge) {
        for (const auto& [number, attempt] : search.running) search.overdue.insert(number);
        if (StartMore(search, work)) ++parts_.counters.hedged_reads;
      }
      may_hedge = false;
      ended = search.race.Wait();
    }
    search.running.erase(ended->number);
    if (!ended->result.ok()) {
      Note(ended->number, ended->result.status(), search.suspects);
      continue;
    }
    if (!search.suspects) {
      MutexLock lock(mutex_);
      last_ = ended->number;
      nodes_[ended->number].state = State::kGave;
    }
    return *std::move(ended->result);
  }
  return Exhausted();
}

void CopyFinder::Note(size_t number, const absl::Status& why, bool suspects) {
  CopyCandidate holder;
  {
    MutexLock lock(mutex_);
    Known& known = nodes_[number];
    if (known.state == State::kGave) ++parts_.counters.left_copies;
    if (last_ == number) last_.reset();
    known.why = why;
    const Reason reason = GetReason(why);
    if (why.GetPayload(kSuspectUrl).has_value()) {
      known.state = State::kSuspect;
    } else if (reason == Reason::kNotFound) {
      known.state = State::kAbsent;
    } else {
      known.state = reason == Reason::kDataLoss ? State::kFailed : State::kSilent;
    }
    holder = known.slot->candidate;
  }
  // A suspect copy has been reported.
  if (!IsDamagedCopy(why) || suspects) return;
  ++parts_.counters.damaged_copies;
  ReportDamagedCopy(parts_, holder, domain_, id_);
}

absl::Status CopyFinder::Exhausted() {
  MutexLock lock(mutex_);
  NodeFailures silent;
  absl::Status failed;
  for (const Known& known : nodes_) {
    if (known.state == State::kSilent)
      silent.emplace_back(known.slot->candidate.node->id, known.why);
    if (known.state == State::kFailed) failed = known.why;
  }
  if (!silent.empty()) return CopyNotFound(id_, silent);
  return failed.ok() ? ObjectNotFound(id_) : failed;
}

}  // namespace tilekv
