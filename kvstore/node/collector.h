// The collector: deletes what nothing refers to, and nothing else. One round:
//
// 1. Versions whose grace is over and old commit records are purged, each by a transaction on the
//    record as read. The rolling session is replaced, so that it holds nothing back.
// 2. The round record gets a random value: this round. In a cluster it is begun by the node whose
//    turn it is (shared_collection.h).
// 3. S: a snapshot. Fence M: the least revision of a session alive at S, else S + 1.
// 4. L: everything that the records of S reach, through trees (live_list.h). A tree that cannot be
//    read ends the round with an error that names it, unless its record is gone meanwhile: then the
//    round begins again.
// 4a. Records only go by purges, deletes, overwrites and moves, which write down what they free
//    (freed.h). If L lost far more since the last round than these explain, records were lost: on a
//    node the round is held, which moves no fence and deletes nothing, until a person names it in a
//    round that confirms it. The name stands for what had been lost when it was given: a further
//    loss gets another name. Elsewhere the loss is reported and the round goes on.
//     So is, everywhere, each round while the end of the catalog's log is in doubt (catalog.h), of
//     which nothing else would tell: it purges nothing either, and is an error that says so.
// 5. The fence is stored in the round record, if it is still this round's, and raised: a session
//    below it puts and links no more.
// 6. Sweep: a batch at a time, after the round record was read and is still this round's: objects
//    that are not in L and whose touched_rev is below M are deleted, decided in the locked section
//    of each. Then files that no row names are removed. In a cluster every node does so by the
//    lists that it is sent (kvstore/cluster/round_peer.h).
//
// Why it is safe: an object that a later commit needs was touched by a session that lives when the
// commit's transaction happens. If that session was alive at S, its revision is at least M; if it
// began after S, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/node/live_list.h"
#include "kvstore/node/models.h"
#include "kvstore/node/node_context.h"
#include "kvstore/node/references.h"
#include "kvstore/node/sessions.h"
#include "kvstore/node/shared_collection.h"

namespace tilekv {

// Thread-safe. One round at a time, dry or not: beside it another is refused.
class Collector {
 public:
  Collector(NodeContext& node, Sessions& sessions, RollingSession& rolling, Models& models)
      : node_(node), sessions_(sessions), rolling_(rolling), models_(models) {}

  // The fence of the last round, from its record. Called once, before anything else.
  absl::Status Start();
  // A dry run ends, purges, raises and deletes nothing, and says what a round would delete.
  // OVERLOADED while a round is running. INVALID_ARGUMENT: no round of the name to be confirmed is
  // held. DATA_LOSS: a tree cannot be read, or the catalog is in doubt.
  absl::StatusOr<v1::CollectResponse> Collect(const v1::CollectRequest& request,
                                              const CallContext& context);
  // Whether the last round was held.
  bool held() const { return held_; }
  // See LocalNode.
  absl::StatusOr<int64_t> DueIn_ms(int64_t every_ms);

 private:
  struct Round;
  absl::StatusOr<v1::CollectResponse> RunRound(const v1::CollectRequest& request,
                                               const CallContext& context);
  // One try of a round; none: a record went meanwhile, begin again.
  absl::StatusOr<std::optional<v1::CollectResponse>> TryRound(const v1::CollectRequest& request,
                                                              SharedCollection::Turn* turn,
                                                              const CallContext& context);
  absl::Status Purge(v1::CollectResponse& response, bool dry_run);
  absl::Status PurgeCommitRecords(CatalogSnapshot& snapshot);
  absl::Status BeginRound(Round& round);
  absl::StatusOr<v1::RoundRecord> ReadRecord();
  absl::Status WriteRecord(Round& round, const v1::RoundRecord& record);
  // The bytes of L that went since an earlier round without an explanation; 0: within bounds.
  absl::StatusOr<uint64_t> Unexplained(Round& round, CatalogSnapshot& snapshot,
                                       uint64_t live_bytes_before, Revision snapshot_before,
                                       const CallContext& context);
  // Whether the round goes on.
  absl::StatusOr<bool> CheckLoss(Round& round, CatalogSnapshot& snapshot,
                                 const v1::CollectRequest& request, v1::CollectResponse& response,
                                 const CallContext& context);
  absl::Status Hold(Round& round, v1::RoundRecord& record, bool further_loss);
  absl::Status StoreFence(Round& round);
  absl::StatusOr<bool> IsCurrent(const Round& round);
  // Between any two steps.
  absl::Status GoOn(const Round& round, const CallContext& context);
  absl::Status FindFence(Round& round, CatalogSnapshot& snapshot, v1::CollectResponse& response);
  // False: a record went meanwhile; begin again.
  absl::StatusOr<bool> FindLive(Round& round, CatalogSnapshot& snapshot,
                                const CallContext& context);
  absl::StatusOr<bool> AddReachable(Round& round, const v1::ObjectRef& ref,
                                    const std::string& catalog_key, Revision mod,
                                    const std::string& whose, const CallContext& context);
  // The next rows after `after` that the round may delete. False: there are no more.
  absl::StatusOr<bool> NextBatch(const Round& round, LiveList::Cursor& live,
                                 std::optional<ObjectId>& after, std::vector<ObjectRow>& batch,
                                 v1::CollectResponse& response);
  absl::Status SweepOwn(const Round& round, bool dry_run, v1::CollectResponse& response,
                        const CallContext& context);
  absl::Status Sweep(const Round& round, bool dry_run, v1::CollectResponse& response,
                     const CallContext& context);
  absl::Status DeleteBatch(const Round& round, const std::vector<ObjectRow>& batch,
                           v1::CollectResponse& response);

  NodeContext& node_;
  Sessions& sessions_;
  RollingSession& rolling_;
  Models& models_;
  std::atomic<bool> running_{false};
  std::atomic<bool> held_{false};
};

}  // namespace tilekv
