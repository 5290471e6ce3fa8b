#include "kvstore/cluster/cluster_link.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/cluster/cluster_errors.h"
#include "kvstore/cluster/concurrently.h"
#include "kvstore/cluster/copy_candidates.h"
#include "kvstore/cluster/object_copies.h"
#include "kvstore/cluster/race.h"

namespace tilekv {
namespace {

// So long copies are made that the minimum does not need.
constexpr int64_t kMendFor_nanos = 5'000'000'000;

struct Holder {
  CopyCandidate candidate;
  std::string store_uuid;
  bool trusted = false;
};

// What is known of one object.
struct Linked {
  CopyCandidates candidates;
  size_t next = 0;    // of the candidates that were not asked
  size_t asked = 0;   // that answered, or may still
  size_t silent = 0;  // that did not answer in the round before
  std::vector<Holder> holders;
  std::vector<const MapNode*> lacking;

  size_t CountStores(bool trusted_only) const {
    std::vector<std::string_view> stores;
    for (const Holder& holder : holders) {
      if (holder.trusted || !trusted_only) stores.push_back(holder.store_uuid);
    }
    std::sort(stores.begin(), stores.end());
    return static_cast<size_t>(std::unique(stores.begin(), stores.end()) - stores.begin());
  }
  bool enough() const { return CountStores(false) >= candidates.replication(); }
  // Nodes that answered without it, and those that were not asked: by the order of all.
  CopyCandidates MayTakeOne() const {
    CopyCandidates nodes{.placement = candidates.placement};
    for (size_t i = 0; i < candidates.nodes.size(); ++i) {
      const CopyCandidate& candidate = candidates.nodes[i];
      const bool lacks = std::find(lacking.begin(), lacking.end(), candidate.node) != lacking.end();
      if (lacks || i >= next) nodes.nodes.push_back(candidate);
    }
    return nodes;
  }
};

// What one node is asked in one round, and what it says.
struct Question {
  CopyCandidate candidate;
  std::vector<size_t> objects;  // by their place in the link
  absl::StatusOr<PeerLinkAnswer> answer;
};

// May run on after the link is over.
absl::StatusOr<PeerLinkAnswer> LinkAt(Peer& peer, Domain domain, std::span<const ObjectRef> refs,
                                      Revision session_rev) {
  PeerLinkAnswer all;
  while (!refs.empty()) {
    const auto some = refs.first(std::min(refs.size(), kMaxBatchOperations));
    refs = refs.subspan(some.size());
    TILEKV_ASSIGN_OR_RETURN(PeerLinkAnswer answer,
                            peer.Link(domain, some, session_rev, CallContext()));
    if (answer.results.size() != some.size()) {
      return MakeError(Reason::kInternal, "it answered for another number of objects");
    }
    all.store_uuid = std::move(answer.store_uuid);
    all.results.insert(all.results.end(), answer.results.begin(), answer.results.end());
  }
  return all;
}

class ClusterLink {
 public:
  ClusterLink(ClusterParts& parts, Domain domain, std::span<const ObjectRef> refs,
              Revision session_rev)
      : parts_(parts), domain_(domain), refs_(refs), session_rev_(session_rev) {}

  absl::StatusOr<std::vector<LinkResult>> Run();

 private:
  using Questions = std::map<const MapNode*, Question>;

  // Adds up to `count` further nodes for this object.
  void Ask(size_t object, size_t count, Questions& questions);
  absl::Status AskAll(Questions questions);
  // Fills in the answers. Once as many nodes have answered as the minimum is, the others are waited
  // for only so long.
  void AskNodes(Questions& questions);
  void AskOwnDisk(Question& question);
  std::vector<ObjectRef> RefsOf(const Question& question) const;
  void Take(const Question& question);
  // All that is to be asked after what was answered; empty: nothing.
  Questions NextRound();
  void MakeCopies();
  void Mend(size_t object, int64_t until_nanos);
  LinkResult ResultOf(const Linked& linked);

  ClusterParts& parts_;
  const Domain domain_;
  const std::span<const ObjectRef> refs_;
  const Revision session_rev_;
  std::vector<Linked> objects_;
};

void ClusterLink::Ask(size_t object, size_t count, Questions& questions) {
  Linked& linked = objects_[object];
  for (; count > 0 && linked.next < linked.candidates.nodes.size(); --count, ++linked.next) {
    const CopyCandidate& candidate = linked.candidates.nodes[linked.next];
    if (!candidate.likely_up && linked.asked >= linked.candidates.min_copies()) return;
    Question& question = questions[candidate.node];
    question.candidate = candidate;
    question.objects.push_back(object);
    ++linked.asked;
  }
}

void ClusterLink::Take(const Question& question) {
  for (size_t i = 0; i < question.objects.size(); ++i) {
    Linked& linked = objects_[question.objects[i]];
    if (!question.answer.ok()) {
      --linked.asked;
      ++linked.silent;
    } else if (const LinkResult& result = question.answer->results[i]; result.present) {
      linked.holders.push_back({question.candidate, question.answer->store_uuid, result.trusted});
    } else {
      linked.lacking.push_back(question.candidate.node);
    }
  }
}

std::vector<ObjectRef> ClusterLink::RefsOf(const Question& question) const {
  std::vector<ObjectRef> refs;
  for (size_t object : question.objects) refs.push_back(refs_[object]);
  return refs;
}

void ClusterLink::AskOwnDisk(Question& question) {
  PeerLinkAnswer own{.store_uuid = parts_.local.store_uuid()};
  auto results = parts_.local.Link(domain_, RefsOf(question), session_rev_);
  if (results.ok()) {
    own.results = *std::move(results);
    question.answer = std::move(own);
  } else {
    question.answer = results.status();
  }
}

void ClusterLink::AskNodes(Questions& questions) {
  Race<PeerLinkAnswer> race(*parts_.options.executor);
  std::vector<Question*> asked;
  std::vector<Question*> own;
  for (auto& [node, question] : questions) {
    if (question.candidate.self) {
      own.push_back(&question);
      continue;
    }
    absl::StatusOr<std::shared_ptr<Peer>> peer = FindPeer(parts_.peers, node->id);
    if (!peer.ok()) {
      question.answer = peer.status();
      continue;
    }
    race.Start(asked.size(),
               [peer = *peer, domain = domain_, refs = RefsOf(question),
                session_rev = session_rev_] { return LinkAt(*peer, domain, refs, session_rev); });
    asked.push_back(&question);
  }
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(parts_.options.late_after_ms);
  size_t answered = 0;
  for (Question* question : own) {
    AskOwnDisk(*question);
    answered += question->answer.ok() ? 1 : 0;
  }
  std::vector<bool> ended(asked.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    std::optional<Race<PeerLinkAnswer>::Ended> next;
    if (answered < objects_.front().candidates.min_copies()) {
      next = race.Wait();
    } else {
      next = race.WaitUntil(until);
    }
    if (!next.has_value()) break;
    ended[next->number] = true;
    answered += next->result.ok() ? 1 : 0;
    asked[next->number]->answer = std::move(next->result);
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    if (ended[i]) continue;
    asked[i]->answer = MakeError(Reason::kNodeUnavailable, "it does not answer in time");
    parts_.late.Add(asked[i]->candidate.node->id);
  }
}

absl::Status ClusterLink::AskAll(Questions questions) {
  AskNodes(questions);
  for (Linked& linked : objects_) linked.silent = 0;
  for (const auto& [node, question] : questions) {
    if (GetReason(question.answer.status()) == Reason::kSessionLost) {
      return question.answer.status();
    }
    Take(question);
  }
  return absl::OkStatus();
}

ClusterLink::Questions ClusterLink::NextRound() {
  Questions questions;
  for (size_t i = 0; i < objects_.size(); ++i) {
    Linked& linked = objects_[i];
    if (linked.enough()) continue;
    // Nobody has it of those who should: whoever else may.
    const bool all = linked.holders.empty();
    Ask(i, all ? linked.candidates.nodes.size() : linked.silent, questions);
  }
  return questions;
}

void ClusterLink::Mend(size_t object, int64_t until_nanos) {
  Linked& linked = objects_[object];
  const bool needed = linked.CountStores(false) < linked.candidates.min_copies();
  if (!needed && parts_.options.clock->MonotonicNanos() >= until_nanos) return;
  PutSpec spec{.domain = domain_,
               .level = refs_[object].level,
               .expected = refs_[object],
               .touched_rev = session_rev_};
  ObjectCopies copies(parts_, spec, linked.MayTakeOne());
  for (const Holder& holder : linked.holders) {
    copies.CountHolder(holder.candidate, holder.store_uuid);
  }
  parts_.counters.linked_copies += copies.Complete();
  const std::vector<Holder> before = std::exchange(linked.holders, {});
  for (const std::string& store : copies.store_uuids()) {
    const auto known = std::find_if(before.begin(), before.end(), [&](const Holder& holder) {
      return holder.store_uuid == store;
    });
    // Those that were made were verified as they were written.
    linked.holders.push_back(known != before.end() ? *known
                                                   : Holder{.store_uuid = store, .trusted = true});
  }
}

void ClusterLink::MakeCopies() {
  const int64_t until_nanos = parts_.options.clock->MonotonicNanos() + kMendFor_nanos;
  std::vector<std::function<void()>> needed, welcome;
  for (size_t i = 0; i < objects_.size(); ++i) {
    const Linked& linked = objects_[i];
    const size_t stores = linked.CountStores(false);
    if (stores == 0 || stores >= linked.candidates.replication()) continue;
    auto& list = stores < linked.candidates.min_copies() ? needed : welcome;
    list.push_back([this, i, until_nanos] { Mend(i, until_nanos); });
  }
  RunConcurrently(*parts_.options.executor, std::move(needed));
  RunConcurrently(*parts_.options.executor, std::move(welcome));
}

LinkResult ClusterLink::ResultOf(const Linked& linked) {
  const size_t min_copies = linked.candidates.min_copies();
  LinkResult result;
  result.present = linked.CountStores(false) >= min_copies;
  result.trusted = linked.CountStores(true) >= min_copies;
  if (result.present && !linked.enough()) ++parts_.counters.short_links;
  return result;
}

absl::StatusOr<std::vector<LinkResult>> ClusterLink::Run() {
  const std::shared_ptr<const Placement> placement = parts_.view.placement();
  objects_.resize(refs_.size());
  Questions questions;
  for (size_t i = 0; i < refs_.size(); ++i) {
    objects_[i].candidates = CandidatesFor(parts_, placement, refs_[i].id, LateOnes::kUnlikely);
    Ask(i, objects_[i].candidates.replication(), questions);
  }
  while (!questions.empty()) {
    TILEKV_RETURN_IF_ERROR(AskAll(std::move(questions)));
    questions = NextRound();
  }
  MakeCopies();
  std::vector<LinkResult> results;
  for (const Linked& linked : objects_) results.push_back(ResultOf(linked));
  return results;
}

}  // namespace

absl::StatusOr<std::vector<LinkResult>> LinkInCluster(ClusterParts& parts, Domain domain,
                                                      std::span<const ObjectRef> refs,
                                                      Revision session_rev) {
  return ClusterLink(parts, domain, refs, session_rev).Run();
}

}  // namespace tilekv
