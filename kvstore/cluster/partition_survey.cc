#include "kvstore/cluster/partition_survey.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/cluster/concurrently.h"
#include "kvstore/cluster/partition_rows.h"

namespace tilekv {
namespace {

// Of one step.
constexpr size_t kMostOwned = 256;
constexpr uint32_t kMostPartitions = 4'096;
constexpr uint64_t kMostRows = 100'000;  // beyond the first partition
static_assert(kMostOwned <= kMaxRepairBatch);

// A place in the batch, and in its list of owners.
using Asked = std::pair<size_t, size_t>;

struct Question {
  std::vector<uint32_t> partitions;
  std::vector<Asked> places;
  std::vector<PartitionDigest> answers;  // of the first partitions
};

// Asks until there are as many answers as questions, or none comes.
void Ask(Peer& peer, Domain domain, const PlacementVersion& version, const CallContext& context,
         Question& question) {
  while (question.answers.size() < question.partitions.size()) {
    const auto left = std::span(question.partitions).subspan(question.answers.size());
    const absl::StatusOr<DigestAnswer> answer = peer.Digests(domain, version, left, context);
    if (!answer.ok() || answer->digests.empty() || answer->digests.size() > left.size()) return;
    question.answers.insert(question.answers.end(), answer->digests.begin(), answer->digests.end());
  }
}

}  // namespace

absl::Status PartitionSurvey::TakeOwnRows(const CallContext& context) {
  const Placement& placement = *own_.placement;
  batch_.clear();
  for (end_ = next_; end_ < placement.partitions() && batch_.size() < kMostOwned; ++end_) {
    if (end_ - next_ == kMostPartitions) break;
    if (own_.Owns(end_)) batch_.push_back({.partition = end_, .others = own_.OthersOf(end_)});
  }
  uint64_t rows = 0;
  size_t at = 0;  // in the batch
  std::optional<uint32_t> last;
  absl::Status stopped;
  TILEKV_RETURN_IF_ERROR(parts_.local.Scan(
      parts_.options.domain, placement.BeforePartition(next_), [&](const ObjectRow& row) {
        const uint32_t partition = placement.PartitionOf(row.ref.id);
        if (partition >= end_) return false;
        if (partition != last) {
          stopped = context.Check();
          if (rows > kMostRows) end_ = partition;
          if (rows > kMostRows || !stopped.ok()) return false;
          last = partition;
          while (at < batch_.size() && batch_[at].partition < partition) ++at;
          const bool owned = at < batch_.size() && batch_[at].partition == partition;
          if (!owned) result_.foreign.push_back(partition);
        }
        ++rows;
        if (at == batch_.size() || batch_[at].partition != partition) return true;
        AddToDigest(row, batch_[at].own);
        if (row.state != RowState::kGood) parts_.pulls.Add({row.ref, row.touched_rev}, {});
        return true;
      }));
  TILEKV_RETURN_IF_ERROR(stopped);
  std::erase_if(batch_, [this](const Owned& owned) { return owned.partition >= end_; });
  return absl::OkStatus();
}

void PartitionSurvey::AskOthers(const CallContext& context) {
  std::map<NodeIndex, Question> questions;
  for (size_t i = 0; i < batch_.size(); ++i) {
    for (size_t j = 0; j < batch_[i].others.size(); ++j) {
      const NodeIndex other = batch_[i].others[j];
      if (result_.silent.contains(other)) continue;
      Question& question = questions[other];
      question.partitions.push_back(batch_[i].partition);
      question.places.emplace_back(i, j);
    }
  }
  std::vector<std::function<void()>> work;
  for (auto& [node, question] : questions) {
    std::shared_ptr<Peer> peer = parts_.peers.Find(own_.NameOf(node));
    if (peer == nullptr) continue;
    work.push_back([this, peer = std::move(peer), &context, &question = question] {
      Ask(*peer, parts_.options.domain, own_.version(), context, question);
    });
  }
  RunConcurrently(*parts_.options.executor, std::move(work));
  for (const auto& [node, question] : questions) {
    for (size_t i = 0; i < question.answers.size(); ++i) {
      const auto [owned, other] = question.places[i];
      batch_[owned].answers[other] = question.answers[i];
    }
    if (question.answers.size() < question.partitions.size()) result_.silent.insert(node);
  }
}

void PartitionSurvey::Compare(const Owned& owned) {
  PartitionDigest fullest = owned.own;
  bool differs = false;
  bool unanswered = false;
  for (size_t i = 0; i < owned.others.size(); ++i) {
    const std::optional<PartitionDigest>& other = owned.answers[i];
    unanswered |= !other.has_value();
    if (!other.has_value() || *other == owned.own) continue;
    differs = true;
    if (other->objects > fullest.objects) fullest = *other;
  }
  const auto is_full = [&](const auto& answer) { return answer == fullest; };
  ++result_.owned;
  result_.unanswered += unanswered ? 1 : 0;
  const bool all_owners = own_.placement->HasAllOwners(own_.placement->OwnersOf(owned.partition));
  result_.short_owned += differs || !all_owners ? 1 : 0;
  if (!differs) return;
  const size_t copies =
      static_cast<size_t>(std::count_if(owned.answers.begin(), owned.answers.end(), is_full)) +
      (owned.own == fullest ? 1 : 0);
  result_.due.push_back(
      {.partition = owned.partition,
       .copies = copies,
       .objects = fullest.objects - owned.own.objects,
       .content_bytes =
           fullest.content_bytes - std::min(fullest.content_bytes, owned.own.content_bytes)});
}

absl::StatusOr<bool> PartitionSurvey::Step(const CallContext& context) {
  const size_t foreign = result_.foreign.size();
  if (absl::Status status = TakeOwnRows(context); !status.ok()) {
    result_.foreign.resize(foreign);  // this step is made again
    return status;
  }
  AskOthers(context);
  for (const Owned& owned : batch_) Compare(owned);
  next_ = end_;
  return next_ == own_.placement->partitions();
}

SurveyResult PartitionSurvey::Take() {
  std::stable_sort(
      result_.due.begin(), result_.due.end(),
      [](const DuePartition& a, const DuePartition& b) { return a.copies < b.copies; });
  return std::move(result_);
}

}  // namespace tilekv
