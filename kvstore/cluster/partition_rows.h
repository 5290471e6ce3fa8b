// The rows of one partition at one store, and what they come to.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

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
// Of the first of these partitions: of one at least, and of no further one once more than
// `most_rows` rows were read. Ascending ones that lie close together are read in one go.
absl::StatusOr<std::vector<PartitionDigest>> DigestsOf(ObjectStore& objects, Domain domain,
                                                       const Placement& placement,
                                                       std::span<const uint32_t> partitions,
                                                       uint64_t most_rows);
// The next kMaxRepairBatch rows behind `after`.
absl::StatusOr<PartitionPage> PageOf(ObjectStore& objects, Domain domain,
                                     const Placement& placement, uint32_t partition,
                                     const std::optional<ObjectId>& after);

}  // namespace tilekv
