// The copies of one object: made at several stores at once of bytes as they come, or afterwards
// from a copy that is whole, and counted.
//
// Nodes are taken from the list of candidates in order, each at most once. One that is not likely
// to answer is asked only while fewer than min_copies stores are in sight.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/cluster/cluster_parts.h"
#include "kvstore/cluster/copy_candidates.h"
#include "kvstore/cluster/peer.h"

namespace tilekv {

// For one thread at a time.
class ObjectCopies {
 public:
  // `spec` names the object (spec.expected, checked) and says how bytes come to Append. Every copy
  // gets spec.touched_rev. `candidates`: those that may be asked.
  ObjectCopies(ClusterParts& parts, const PutSpec& spec, CopyCandidates candidates);
  // Copies that are still open end in the executor: who gives them up must not wait for their
  // nodes.
  ~ObjectCopies();
  ObjectCopies(const ObjectCopies&) = delete;
  ObjectCopies& operator=(const ObjectCopies&) = delete;

  // A node that holds a good copy with that revision already. It may give it to others.
  void CountHolder(const CopyCandidate& holder, const std::string& store_uuid);
  // This node's disk holds one too. It is given to others; where they are too few it counts itself,
  // if this node is in the map.
  void HoldSpare(bool counts) {
    spare_ = true;
    spare_counts_ = counts;
  }

  // Opens a copy at each of the first `replication` nodes. Too few for the minimum: Check's error.
  absl::Status Start();
  // Whether this node's disk is one of them and still takes bytes: then what Append gets is
  // verified on its way.
  bool writes_here() const;
  // What is wrong with the bytes, as ObjectWriter::Append, where this node's disk saw it. A copy
  // that fails is given up; Check's error where none is left.
  absl::Status Append(Bytes stored, std::span<const uint32_t> table);
  // Ends the copies that are open. As Append.
  absl::Status FinishOpen();

  // Makes copies from one that is whole until `replication` stores hold the object or no node is
  // left to be asked. A source that proves damaged is reported and counts no more. Returns how many
  // were made.
  size_t Complete();

  const std::vector<std::string>& store_uuids() const { return stores_; }  // that hold it
  bool enough() const { return stores_.size() >= candidates_.replication(); }
  bool stored() const { return stored_; }  // a store has put it where no good copy was
  // OK when min_copies stores hold the object; else TOO_FEW_COPIES, or the error that all nodes
  // gave alike. The text names them.
  absl::Status Check() const;

 private:
  struct Target {
    CopyCandidate candidate;
    std::unique_ptr<CopyWriter> writer;
  };
  struct Holder {
    CopyCandidate candidate;
    std::string store_uuid;  // empty: not counted
  };

  absl::StatusOr<std::unique_ptr<CopyWriter>> NewCopy(const CopyCandidate& candidate);
  // Whether there is a node that may be asked, and which.
  bool CanDraw() const;
  CopyCandidate Draw();
  // Opens copies until `count` are open or no node is left.
  void OpenTargets(size_t count);
  // Gives all targets a piece; `own` is what this node's disk gets, `shared` the peers. What this
  // node's disk has against the bytes; targets that fail are given up.
  absl::Status AppendPiece(Bytes own, const SharedBytes& shared, std::span<const uint32_t> table);
  // OK, or why the source cannot go on.
  absl::Status Feed(ObjectReader& source);
  absl::StatusOr<std::shared_ptr<ObjectReader>> OpenSource(const Holder& holder);
  // Takes the source out of use, and its copy out of the count where it is damaged.
  void DropSource(const absl::Status& why);
  void GiveUp(const CopyCandidate& candidate, const absl::Status& why);
  size_t InSight() const { return stores_.size() + (spare_counts_ ? 1 : 0) + targets_.size(); }
  size_t NotAsked() const { return again_.size() + candidates_.nodes.size() - next_candidate_; }
  bool HasPeers() const;

  ClusterParts& parts_;
  PutSpec spec_;
  const CopyCandidates candidates_;
  size_t next_candidate_ = 0;
  std::deque<CopyCandidate> again_;  // were asked, and failed through no fault of their own
  std::vector<Target> targets_;
  std::deque<Holder> sources_;
  std::vector<std::string> stores_;  // distinct
  bool spare_ = false;
  bool spare_counts_ = false;
  bool stored_ = false;
  std::vector<std::pair<std::string, absl::Status>> failures_;  // by node
};

}  // namespace tilekv
