#include "kvstore/cluster/cluster_objects.h"

#include "kvstore/base/status.h"
#include "kvstore/cluster/cluster_link.h"
#include "kvstore/cluster/cluster_parts.h"
#include "kvstore/cluster/cluster_read.h"
#include "kvstore/cluster/star_writer.h"

namespace tilekv {

ClusterObjects::ClusterObjects(ObjectStore& local, Peers& peers, ClusterView& view,
                               const ClusterObjectsOptions& options)
    : local_(local),
      parts_(new ClusterParts{local, peers, view, options, {}, LateNodes(*options.clock)}) {
  TILEKV_CHECK(options.executor != nullptr && options.replica_budget != nullptr &&
               options.pool != nullptr);
}

ClusterObjects::~ClusterObjects() = default;

const ClusterCounters& ClusterObjects::counters() const { return parts_->counters; }

absl::StatusOr<std::unique_ptr<ObjectWriter>> ClusterObjects::NewWriter(const PutSpec& spec) {
  if (spec.expected.has_value()) return StarWriter::Begin(*parts_, spec);
  return SpoolWriter::Begin(*parts_, spec);
}

absl::StatusOr<std::vector<LinkResult>> ClusterObjects::Link(Domain domain,
                                                             std::span<const ObjectRef> refs,
                                                             Revision touched_rev) {
  return LinkInCluster(*parts_, domain, refs, touched_rev);
}

absl::StatusOr<std::shared_ptr<ObjectReader>> ClusterObjects::Open(Domain domain,
                                                                   const ObjectId& id) {
  return OpenInCluster(*parts_, domain, id);
}

absl::StatusOr<std::unique_ptr<ObjectWriter>> ClusterObjects::NewReplacement(
    const PutSpec& spec, const ObjectRow& seen) {
  return local_.NewReplacement(spec, seen);
}

absl::StatusOr<std::optional<ObjectRow>> ClusterObjects::Stat(Domain domain, const ObjectId& id) {
  return local_.Stat(domain, id);
}

absl::Status ClusterObjects::Scan(Domain domain, const std::optional<ObjectId>& after,
                                  const std::function<bool(const ObjectRow&)>& visit) {
  return local_.Scan(domain, after, visit);
}

absl::StatusOr<std::vector<bool>> ClusterObjects::DeleteAllBelow(Domain domain,
                                                                 std::span<const ObjectId> ids,
                                                                 Revision fence) {
  return local_.DeleteAllBelow(domain, ids, fence);
}

absl::StatusOr<std::vector<LinkResult>> ClusterObjects::LinkEach(Domain domain,
                                                                 std::span<const TouchedRef> refs) {
  return local_.LinkEach(domain, refs);
}

absl::StatusOr<std::vector<bool>> ClusterObjects::DropUnchanged(
    Domain domain, std::span<const TouchedRef> seen, const std::function<bool()>& still_allowed) {
  return local_.DropUnchanged(domain, seen, still_allowed);
}

absl::Status ClusterObjects::MarkSuspect(Domain domain, const ObjectId& id) {
  return local_.MarkSuspect(domain, id);
}

absl::StatusOr<bool> ClusterObjects::Verify(Domain domain, const ObjectId& id) {
  return local_.Verify(domain, id);
}

absl::StatusOr<StoreUsage> ClusterObjects::Usage() { return local_.Usage(); }

absl::Status ClusterObjects::CheckCopies(Domain domain, bool repair, const CopyProblemFound& found,
                                         const CallContext& context) {
  return local_.CheckCopies(domain, repair, found, context);
}

absl::Status ClusterObjects::CheckWritable(uint64_t /*bytes*/) { return local_.CheckWritable(0); }

void ClusterObjects::MakeRoomForDelete() { local_.MakeRoomForDelete(); }

absl::Status ClusterObjects::SettleRevisions(Domain domain, Revision revision) {
  return local_.SettleRevisions(domain, revision);
}

TableFiles* ClusterObjects::tables() { return local_.tables(); }

absl::StatusOr<uint64_t> ClusterObjects::RemoveUnnamedFiles() {
  return local_.RemoveUnnamedFiles();
}

absl::Status ClusterObjects::NothingIsMissing() { return local_.NothingIsMissing(); }

}  // namespace tilekv
