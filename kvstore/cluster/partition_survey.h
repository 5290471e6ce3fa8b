// One look at all partitions: which of those that this node owns differ between their owners, and
// of which others it holds something.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/cluster/repair_parts.h"

namespace tilekv {

// Its owners do not all hold the same.
struct DuePartition {
  uint32_t partition = 0;
  size_t copies = 0;  // owners that hold as much as the fullest one
  // That this node lacks, as far as counts tell.
  uint64_t objects = 0;
  uint64_t content_bytes = 0;
};

struct SurveyResult {
  std::vector<DuePartition> due;  // fewest copies first
  std::vector<uint32_t> foreign;  // ascending
  SilentNodes silent;
  uint64_t owned = 0;
  uint64_t short_owned = 0;  // due, or with fewer owners than R
  uint64_t unanswered = 0;   // an owner did not answer
};

// For one thread at a time. Rows of owned partitions that are not good go on the list of pulls.
class PartitionSurvey {
 public:
  PartitionSurvey(RepairParts& parts, const OwnPlacement& own) : parts_(parts), own_(own) {}

  // Goes on for a bounded number of partitions. True: that was the last.
  absl::StatusOr<bool> Step(const CallContext& context);
  // Once, at the end.
  SurveyResult Take();

 private:
  struct Owned {
    uint32_t partition = 0;
    PartitionDigest own;
    std::vector<NodeIndex> others;
    std::array<std::optional<PartitionDigest>, kMaxReplication> answers;  // of `others`
  };

  // The next partitions that this node owns; their rows and those between them.
  absl::Status TakeOwnRows(const CallContext& context);
  void AskOthers(const CallContext& context);
  void Compare(const Owned& owned);

  RepairParts& parts_;
  const OwnPlacement own_;
  uint32_t next_ = 0;         // the first partition of this step
  uint32_t end_ = 0;          // and where it ends
  std::vector<Owned> batch_;  // of this step, ascending
  SurveyResult result_;
};

}  // namespace tilekv
