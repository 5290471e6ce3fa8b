// The collector: deletes what nothing refers to, and nothing else. One round:
//
// 1. Versions whose grace is over and old commit records are purged, each by a transaction on the
//    record as read. The rolling session is replaced, so that it holds nothing back.
// 2. The round record gets a random value: this round.
// 3. S: a snapshot. Fence M: the least revision of a session alive at S, else S + 1.
// 4. L: everything that the records of S reach, through trees, as sorted 8-byte prefixes of ids (a
//    chance hit only keeps garbage). A tree that cannot be read ends the round with an error that
//    names it, unless its record is gone meanwhile: then the round begins again.
// 5. The fence is stored in the round record, if it is still this round's, and raised: a session
//    below it puts and links no more.
// 6. Sweep: a batch at a time, after the round record was read and is still this round's: objects
//    that are not in L and whose touched_rev is below M are deleted, decided in the locked section
//    of each. Then files that no row names are removed.
//
// Why it is safe: an object that a later commit needs was touched by a session that lives when the
// commit's transaction happens. If that session was alive at S, its revision is at least M; if it
// began after S, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/node/models.h"
#include "kvstore/node/node_context.h"
#include "kvstore/node/references.h"
#include "kvstore/node/sessions.h"

namespace tilekv {

// Thread-safe. One round at a time, dry or not: beside it another is refused.
class Collector {
 public:
  Collector(NodeContext& node, Sessions& sessions, RollingSession& rolling, Models& models)
      : node_(node), sessions_(sessions), rolling_(rolling), models_(models) {}

  // The fence of the last round, from its record. Called once, before anything else.
  absl::Status Start();
  // A dry run purges, raises and deletes nothing, and says what a round would delete. OVERLOADED
  // while a round is running.
  absl::StatusOr<v1::CollectResponse> Collect(bool dry_run, const CallContext& context);

 private:
  struct Round;
  absl::StatusOr<v1::CollectResponse> RunRound(bool dry_run, const CallContext& context);
  absl::Status Purge(v1::CollectResponse& response, bool dry_run);
  absl::Status PurgeCommitRecords(CatalogSnapshot& snapshot);
  absl::Status BeginRound(Round& round);
  absl::Status StoreFence(Round& round);
  absl::StatusOr<bool> IsCurrent(const Round& round);
  absl::Status FindFence(Round& round, CatalogSnapshot& snapshot, v1::CollectResponse& response);
  // False: a record went meanwhile; begin again.
  absl::StatusOr<bool> FindLive(Round& round, CatalogSnapshot& snapshot,
                                const CallContext& context);
  absl::StatusOr<bool> AddReachable(Round& round, const v1::ObjectRef& ref,
                                    const std::string& catalog_key, Revision mod,
                                    const std::string& whose, const CallContext& context);
  absl::Status Sweep(const Round& round, bool dry_run, v1::CollectResponse& response,
                     const CallContext& context);
  absl::Status DeleteBatch(const Round& round, const std::vector<ObjectRow>& batch,
                           v1::CollectResponse& response);

  NodeContext& node_;
  Sessions& sessions_;
  RollingSession& rolling_;
  Models& models_;
  std::atomic<bool> running_{false};
};

}  // namespace tilekv
