#include "kvstore/cluster/partition_rows.h"

#include <algorithm>
#include <array>

#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {

void AddToDigest(const ObjectRow& row, PartitionDigest& digest) {
  if (row.state != RowState::kGood) return;
  std::array<uint8_t, sizeof(ObjectId::bytes) + 8> text;
  std::copy(row.ref.id.bytes.begin(), row.ref.id.bytes.end(), text.begin());
  StoreLe(text.data() + sizeof(ObjectId::bytes), row.touched_rev.value);
  const LeafHash hash = Blake3(text);
  ++digest.objects;
  digest.content_bytes += row.ref.length;
  digest.sums[0] += LoadLe<uint64_t>(hash.data());
  digest.sums[1] += LoadLe<uint64_t>(hash.data() + 8);
}

absl::Status ScanPartition(ObjectStore& objects, Domain domain, const Placement& placement,
                           uint32_t partition, const std::optional<ObjectId>& after,
                           const std::function<bool(const ObjectRow&)>& visit) {
  const std::optional<ObjectId> before = placement.BeforePartition(partition);
  const bool goes_on = after.has_value() && (!before.has_value() || *before < *after);
  return objects.Scan(domain, goes_on ? after : before, [&](const ObjectRow& row) {
    return placement.PartitionOf(row.ref.id) == partition && visit(row);
  });
}

absl::StatusOr<std::vector<PartitionDigest>> DigestsOf(ObjectStore& objects, Domain domain,
                                                       const Placement& placement,
                                                       std::span<const uint32_t> partitions,
                                                       uint64_t most_rows) {
  // Reading past the rows of so many others is cheaper than to begin anew.
  constexpr uint32_t kClose = 8;
  std::vector<PartitionDigest> digests(partitions.size());
  size_t done = 0;  // those before it are complete
  uint64_t rows = 0;
  while (done < partitions.size() && (done == 0 || rows <= most_rows)) {
    size_t end = done + 1;
    while (end < partitions.size() && partitions[end] > partitions[end - 1] &&
           partitions[end] - partitions[end - 1] <= kClose) {
      ++end;
    }
    bool cut = false;
    TILEKV_RETURN_IF_ERROR(objects.Scan(
        domain, placement.BeforePartition(partitions[done]), [&](const ObjectRow& row) {
          const uint32_t partition = placement.PartitionOf(row.ref.id);
          const size_t before = done;
          while (done < end && partitions[done] < partition) ++done;
          if (done == end) return false;
          cut = done > before && rows > most_rows;
          if (cut) return false;
          ++rows;
          if (partitions[done] == partition) AddToDigest(row, digests[done]);
          return true;
        }));
    if (cut) break;
    done = end;
  }
  digests.resize(done);
  return digests;
}

absl::StatusOr<PartitionPage> PageOf(ObjectStore& objects, Domain domain,
                                     const Placement& placement, uint32_t partition,
                                     const std::optional<ObjectId>& after) {
  PartitionPage page{.rows = {}, .end = true};
  TILEKV_RETURN_IF_ERROR(
      ScanPartition(objects, domain, placement, partition, after, [&page](const ObjectRow& row) {
        if (page.rows.size() == kMaxRepairBatch) {
          page.end = false;
          return false;
        }
        page.rows.push_back({row.ref, row.touched_rev, row.state});
        return true;
      }));
  return page;
}

}  // namespace tilekv
