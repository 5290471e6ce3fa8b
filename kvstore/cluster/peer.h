// What the nodes of one cluster ask each other about objects. The answering side works on its own
// disk only: it never asks a third node, so that nodes cannot wait for each other in a circle.
//
// Every call travels with the catalog's line; a node on another line refuses it (CATALOG_REWOUND).
// Errors of all calls beside those named: NODE_UNAVAILABLE (no answer; what was asked may have
// happened or not, and asking again is harmless), OVERLOADED, CANCELLED, DEADLINE_EXCEEDED.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/call_context.h"
#include "kvstore/base/revision.h"
#include "kvstore/base/shared_bytes.h"
#include "kvstore/cluster/repair_values.h"
#include "kvstore/cluster/round_peer.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

// A store that holds a copy. Copies are counted by store, never by address or node: two nodes that
// answer for one disk are one.
struct CopyAnswer {
  std::string store_uuid;
  Revision touched_rev;  // of its row by now: at least what was asked for
  bool stored = false;   // false: a good copy was there already
};

// One copy on its way to another node, for one thread at a time. The other node makes it durable as
// soon as it has all of it, without waiting for Finish: several are finished one after another in
// the time of the slowest. Destroyed before that, it discards what came.
class CopyWriter {
 public:
  virtual ~CopyWriter() = default;
  // As ObjectWriter::Append. Returns before the bytes have left, as long as the copy's part of the
  // budget of replica writes lasts. NODE_UNAVAILABLE once nothing has moved for kCopyStall_ms, and
  // from then on.
  virtual absl::Status Append(SharedBytes stored, std::span<const uint32_t> table) = 0;
  // The other node has verified the content to its id and has synced content and row.
  virtual absl::StatusOr<CopyAnswer> Finish() = 0;
};

struct PeerLinkAnswer {
  std::string store_uuid;
  std::vector<LinkResult> results;  // in the order of the references
};

// Another node, or this one through the same door (placement/placement.h says which are asked for
// what). What it is asked in the collector's rounds: round_peer.h. Thread-safe.
class Peer : public RoundPeer {
 public:
  ~Peer() override = default;
  virtual const std::string& node_id() const = 0;

  // As ObjectStore::Link on its disk.
  virtual absl::StatusOr<PeerLinkAnswer> Link(Domain domain, std::span<const ObjectRef> refs,
                                              Revision session_rev, const CallContext& context) = 0;
  // `spec` names the object (spec.expected) and carries session_rev as its touched_rev.
  // STORE_FULL, STORE_FAILED, OBJECT_TOO_LARGE, SESSION_LOST.
  virtual absl::StatusOr<std::unique_ptr<CopyWriter>> NewCopy(const PutSpec& spec,
                                                              const CallContext& context) = 0;
  // Its copy as it is stored, with leaf and block tables; what is read of it is not verified yet.
  // NOT_FOUND: it has none that it gives out. Reads of the reader fail with NODE_UNAVAILABLE where
  // nothing came for kCopyStall_ms.
  virtual absl::StatusOr<std::shared_ptr<ObjectReader>> OpenCopy(Domain domain, const ObjectId& id,
                                                                 const CallContext& context) = 0;
  // As ObjectStore::MarkSuspect and Verify: what was read there did not hash to its id.
  virtual absl::Status ReportDamage(Domain domain, const ObjectId& id,
                                    const CallContext& context) = 0;

  // --- for repair (repair_answers.h says what is answered). `placement` is the asker's; where the
  // node has another one its answer is empty, and names its own.

  // Of the first of these partitions, one at least: those that follow are asked for again. At most
  // kMaxRepairBatch of them.
  virtual absl::StatusOr<DigestAnswer> Digests(Domain domain, const PlacementVersion& placement,
                                               std::span<const uint32_t> partitions,
                                               const CallContext& context) = 0;
  // Its rows of the partition, in any state, in order of id, from the first one above `after`.
  virtual absl::StatusOr<PartitionPage> ListPartition(Domain domain, uint32_t partition,
                                                      const std::optional<ObjectId>& after,
                                                      const CallContext& context) = 0;
  // This node holds these objects (distinct, kMaxRepairBatch at most), with these revisions. The
  // other one raises its own to them, and says what it will pull from here.
  virtual absl::StatusOr<OfferAnswer> Offer(Domain domain, const PlacementVersion& placement,
                                            std::span<const TouchedRef> refs,
                                            const CallContext& context) = 0;
  // Whether this node may drop its copies of these objects (as above) for all that the other one
  // knows. The answers count for kDropAnswerCounts_ms from when the question is sent.
  virtual absl::StatusOr<DropAnswer> ConfirmDrop(Domain domain, const PlacementVersion& placement,
                                                 std::span<const TouchedRef> refs,
                                                 const CallContext& context) = 0;

  // --- for a check of the cluster (copy_listing.h), whatever the placement

  // Its rows, in any state, in order of id, from the first one above `after`.
  virtual absl::StatusOr<PartitionPage> ListCopies(Domain domain,
                                                   const std::optional<ObjectId>& after,
                                                   const CallContext& context) = 0;
  // A bounded step over its copies, from the first one above `after`.
  virtual absl::StatusOr<VerifyAnswer> VerifyCopies(Domain domain,
                                                    const std::optional<ObjectId>& after,
                                                    const CallContext& context) = 0;
};

// The nodes by their ids in the cluster map. Thread-safe.
class Peers {
 public:
  virtual ~Peers() = default;
  // Null: no node of that id has an address.
  virtual std::shared_ptr<Peer> Find(std::string_view node_id) = 0;
  // A hint, of no weight for safety: false where it is not registered in the catalog or did not
  // answer just now. Those that are not likely to answer are asked last.
  virtual bool IsLikelyUp(std::string_view node_id) = 0;
};

}  // namespace tilekv
