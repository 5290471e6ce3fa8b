// What a node does in the collector's rounds: it keeps the lists (round_store.h) and deletes, on
// its own disk, what they do not have. Answers round_peer.h for itself and for other nodes, and
// copy_refusals.h for repair.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvstore/catalog/catalog.h"
#include "kvstore/cluster/copy_refusals.h"
#include "kvstore/cluster/round_peer.h"
#include "kvstore/cluster/round_store.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

// Since the start, of copies on this node's disk.
struct RoundCounters {
  std::atomic<uint64_t> deleted_objects{0};
  std::atomic<uint64_t> deleted_bytes{0};  // of content
};

// Thread-safe. Everything that it refers to outlives it.
class NodeRounds : public RoundPeer, public CopyRefusals {
 public:
  // `local`: the node's own disk. `line_id`: the catalog's line as this node knows it, 16 bytes.
  NodeRounds(RoundStore& store, ObjectStore& local, Catalog& catalog,
             std::function<std::string()> line_id)
      : store_(store), local_(local), catalog_(catalog), line_id_(std::move(line_id)) {}

  // A session below it is over: its puts and links get SESSION_LOST.
  Revision fence() const { return store_.fence(); }
  absl::Status CheckSession(Revision session_rev);

  const RoundCounters& counters() const { return counters_; }

  // --- CopyRefusals
  absl::StatusOr<std::optional<CopyRefusal>> RefusalOf(Domain domain, const ObjectId& id,
                                                       Revision touched_rev) override;
  absl::Status Confirm(const CopyRefusal& refusal) override;

  // --- RoundPeer
  absl::StatusOr<std::vector<bool>> HeldPartitions(Domain domain, uint32_t partition_bits,
                                                   const CallContext& context) override;
  absl::Status StoreRoundPart(const RoundPart& part, const CallContext& context) override;
  absl::StatusOr<SweepAnswer> SweepRound(Domain domain, const RoundName& round,
                                         const std::optional<ObjectId>& after,
                                         const CallContext& context) override;
  absl::StatusOr<SweepAnswer> CountGarbage(const RoundPart& part,
                                           const CallContext& context) override;

 private:
  class Step;
  absl::Status CheckLine(const RoundName& round) const;

  RoundStore& store_;
  ObjectStore& local_;
  Catalog& catalog_;
  const std::function<std::string()> line_id_;
  RoundCounters counters_;
};

}  // namespace tilekv
