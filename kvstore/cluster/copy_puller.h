// Pulls one object to this node's disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/cluster/repair_parts.h"

namespace tilekv {

enum class PullOutcome {
  kHere,      // it is, by now
  kNotOwned,  // this node does not own it any more
  kGone,      // it was deleted: no node has a copy, and all have said so, or the collector's list
              // has it not
  kNoSource,  // none that gives a whole copy was found
  kNoRoom,    // this node's disk does not take it: STORE_FULL, STORE_FAILED
  kEnded,     // the call is not wanted any more
};

// For one object and one thread; any number at once.
class CopyPuller {
 public:
  CopyPuller(RepairParts& parts, const Pull& pull, const CallContext& context)
      : parts_(parts), pull_(pull), context_(context), own_(OwnPlacement::Of(parts.view)) {}

  PullOutcome Run();

 private:
  struct Source {
    std::string node_id;
    std::shared_ptr<Peer> peer;
  };
  // What one source came to: of its own, or of this node's disk.
  struct Attempt {
    absl::Status source;
    absl::Status disk;
    bool suspect = false;  // it has a copy that is to be read last
    bool garbage = false;  // by this node's list of the collector's last round
    bool ok() const { return source.ok() && disk.ok() && !suspect && !garbage; }
  };

  // Whether a good copy is here, which then gets the revision.
  absl::StatusOr<bool> IsHere();
  // Those that are known; where none are, all nodes of the map. Those that are likely to answer
  // come first, in turns.
  std::vector<std::string> NodesToAsk() const;
  // Tries all of `nodes`. Suspect copies are left for the second time.
  std::optional<PullOutcome> TryAll(const std::vector<std::string>& nodes, bool suspects);
  Attempt PullFrom(Peer& peer, bool suspects);
  Attempt Copy(ObjectReader& source);
  void Report(const std::string& node_id);

  RepairParts& parts_;
  const Pull& pull_;
  const CallContext& context_;
  const OwnPlacement own_;
  size_t absent_ = 0;               // nodes that have said that they have none
  bool row_here_ = false;           // this node has a copy, which is no good
  std::vector<std::string> later_;  // nodes whose copies are suspect
};

}  // namespace tilekv
