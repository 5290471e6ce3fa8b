// Puts into a cluster.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kvstore/cluster/cluster_parts.h"
#include "kvstore/cluster/object_copies.h"
#include "kvstore/object/incoming_content.h"

namespace tilekv {

// A put whose object is known: bytes go to its stores as they come. Where none of these is this
// node's disk, they are verified here before they are passed on.
class StarWriter : public ObjectWriter {
 public:
  // `spec` names the object. Errors of CheckPutSpec; of ObjectCopies::Start.
  static absl::StatusOr<std::unique_ptr<StarWriter>> Begin(ClusterParts& parts,
                                                           const PutSpec& spec);

  absl::Status Append(Bytes stored, std::span<const uint32_t> table) override;
  absl::StatusOr<PutOutcome> Finish() override;

 private:
  StarWriter(ClusterParts& parts, const PutSpec& spec, CopyCandidates candidates);

  ClusterParts& parts_;
  const PutSpec spec_;
  ObjectCopies copies_;
  std::optional<IncomingContent> check_;
  absl::Status status_;  // of the put so far
};

// A put whose object is known at its end. Small contents are kept in memory until then, larger ones
// on this node's disk.
class SpoolWriter : public ObjectWriter {
 public:
  // `spec` does not name the object. Errors of CheckPutSpec; of the local store's NewWriter.
  static absl::StatusOr<std::unique_ptr<SpoolWriter>> Begin(ClusterParts& parts,
                                                            const PutSpec& spec);

  absl::Status Append(Bytes stored, std::span<const uint32_t> table) override;
  absl::StatusOr<PutOutcome> Finish() override;

 private:
  SpoolWriter(ClusterParts& parts, const PutSpec& spec) : parts_(parts), spec_(spec) {}
  absl::Status AppendSmall(Bytes stored, std::span<const uint32_t> table);
  absl::Status OpenLocal();
  absl::StatusOr<PutOutcome> FinishSmall();
  absl::StatusOr<PutOutcome> FinishSpooled();

  ClusterParts& parts_;
  const PutSpec spec_;
  std::optional<IncomingContent> small_;  // while all of it is in memory
  std::string bytes_;
  std::unique_ptr<ObjectWriter> local_;
  absl::Status status_;  // of the put so far
};

}  // namespace tilekv
