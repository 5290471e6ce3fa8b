// The rows of one partition at one store, and what they come to.
#pragma once

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "kvstore/cluster/repair_values.h"
#include "kvstore/object/object_store.h"
#include "kvstore/placement/placement.h"

namespace tilekv {

// A row that counts.
void AddToDigest(const ObjectRow& row, PartitionDigest& digest);

// As ObjectStore::Scan, within the partition.
absl::Status ScanPartition(ObjectStore& objects, Domain domain, const Placement& placement,
                           uint32_t partition, const std::optional<ObjectId>& after,
                           const std::function<bool(const ObjectRow&)>& visit);
absl::StatusOr<PartitionDigest> DigestOf(ObjectStore& objects, Domain domain,
                                         const Placement& placement, uint32_t partition);
// The next kMaxRepairBatch rows behind `after`.
absl::StatusOr<PartitionPage> PageOf(ObjectStore& objects, Domain domain,
                                     const Placement& placement, uint32_t partition,
                                     const std::optional<ObjectId>& after);

}  // namespace tilekv
