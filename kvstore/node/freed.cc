#include "kvstore/node/freed.h"

#include <algorithm>
#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/references.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

// Beside what is live, whose list has shrunk to half by then.
constexpr uint64_t kMemoryBytes = kCollectMemoryBytes / 2;
constexpr size_t kRemovedAtOnce = 1'000;

CatalogWrite Write(const v1::ObjectRef& object, Revision since, uint64_t bytes) {
  v1::FreedRecord record;
  *record.mutable_object() = object;
  record.set_since_rev(since.value);
  record.set_bytes(bytes);
  return CatalogWrite::Put(FreedKey(since, object.id()), record.SerializeAsString());
}

}  // namespace

CatalogWrite FreedWrite(const v1::VersionRecord& version, Revision created) {
  return Write(version.commit(), created, version.logical_bytes());
}

std::optional<CatalogWrite> FreedWrite(const CatalogEntry& value) {
  v1::ValueRecord record;
  if (!record.ParseFromString(value.value) || !record.has_object()) return std::nullopt;
  return Write(record.object(), value.mod_revision, record.length());
}

absl::StatusOr<uint64_t> FreedBytes(NodeContext& node, CatalogSnapshot& snapshot, Revision since,
                                    const LiveList& live, TreeWalk walk,
                                    const CallContext& context) {
  LiveList freed(node.scratch, kMemoryBytes);
  uint64_t damaged_bytes = 0;
  KeyRange range = FreedRange();
  TILEKV_RETURN_IF_ERROR(VisitEntries(
      snapshot, range.start, range.end, [&](const CatalogEntry& entry) -> absl::Status {
        v1::FreedRecord record;
        if (!record.ParseFromString(entry.value) || entry.mod_revision <= since ||
            Revision{record.since_rev()} > since) {
          return absl::OkStatus();
        }
        absl::StatusOr<ObjectRef> ref = ObjectRefFromWire(record.object());
        if (!ref.ok()) return absl::OkStatus();
        TreeVisitor visitor;
        absl::Status kept;
        visitor.visit = [&](const ObjectRef& met) {
          if (kept.ok()) kept = freed.Add(met);
          return kept.ok();
        };
        bool damaged = false;
        visitor.unreadable = [&damaged](const ObjectRef&, const absl::Status&) {
          damaged = true;
          return absl::OkStatus();
        };
        TILEKV_RETURN_IF_ERROR(walk.Walk(*ref, visitor, context));
        if (damaged) damaged_bytes += record.bytes();
        return kept;
      }));
  TILEKV_RETURN_IF_ERROR(freed.Finish(&live));
  return freed.bytes() + damaged_bytes;
}

absl::Status RemoveFreed(NodeContext& node, Revision up_to) {
  KeyRange range = FreedRange();
  const size_t at_once = std::min(kRemovedAtOnce, node.catalog.max_txn_operations() / 2);
  bool more = true;
  while (more) {
    TILEKV_ASSIGN_OR_RETURN(CatalogPage page, node.catalog.List(range.start, range.end, at_once));
    CatalogTxn txn;
    for (const CatalogEntry& entry : page.entries) {
      range.start = entry.key + '\0';
      if (entry.mod_revision > up_to) continue;
      txn.compares.push_back(Compare::Mod(entry.key, entry.mod_revision));
      txn.writes.push_back(CatalogWrite::Delete(entry.key));
    }
    more = page.more;
    if (txn.writes.empty()) continue;
    // Where one was written again they all stay, for the next round.
    TILEKV_RETURN_IF_ERROR(node.Txn(std::move(txn), TxnPurpose::kRemove).status());
  }
  return absl::OkStatus();
}

}  // namespace tilekv
