#include "kvstore/node/node_context.h"

#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {

NodeContext::NodeContext(ObjectStore& objects, Catalog& catalog, const NodeOptions& options)
    : objects(objects),
      catalog(catalog),
      clock(*options.clock),
      random(*options.random),
      pool(options.pool != nullptr ? options.pool : BufferPool::Create(16 * kMiB)),
      domain(options.domain),
      kind(options.kind),
      scratch(options.scratch),
      holds_rounds(options.holds_rounds) {}

absl::Status NodeContext::Start() {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, catalog.Get(kLineKey));
  v1::LineRecord line;
  if (!entry || !line.ParseFromString(entry->value) || line.line_id().size() != 16) {
    return MakeError(Reason::kDataLoss, "the catalog's record of its line is gone or damaged");
  }
  line_id_ = line.line_id();
  line_revision_ = entry->mod_revision;
  TILEKV_ASSIGN_OR_RETURN(start_revision_, catalog.CurrentRevision());
  TILEKV_ASSIGN_OR_RETURN(entry, catalog.Get(FreedKey(objects.store_uuid())));
  v1::FreedRecord freed;
  if (entry && freed.ParseFromString(entry->value)) freed_bytes_ = freed.bytes();
  return absl::OkStatus();
}

absl::Status NodeContext::CheckHealth() {
  TILEKV_RETURN_IF_ERROR(objects.CheckWritable(0));
  return catalog.CheckWritable();
}

absl::StatusOr<TxnResult> NodeContext::Txn(CatalogTxn txn, TxnPurpose purpose,
                                           uint64_t freed_bytes) {
  if (purpose == TxnPurpose::kRemove) {
    objects.MakeRoomForDelete();
  } else {
    uint64_t added_bytes = 0;
    for (const CatalogWrite& write : txn.writes) {
      added_bytes += write.key.size() + (write.value ? write.value->size() : 0);
    }
    TILEKV_RETURN_IF_ERROR(objects.CheckWritable(added_bytes));
  }
  txn.compares.push_back(Compare::Mod(kLineKey, line_revision_));
  if (freed_bytes > 0) {
    v1::FreedRecord freed;
    freed.set_bytes(freed_bytes_ += freed_bytes);
    txn.writes.push_back(
        CatalogWrite::Put(FreedKey(objects.store_uuid()), freed.SerializeAsString()));
  }
  absl::StatusOr<TxnResult> outcome = catalog.Txn(txn);
  // An unknown outcome may have counted it.
  if (outcome.ok() && !outcome->applied) freed_bytes_ -= freed_bytes;
  TILEKV_ASSIGN_OR_RETURN(TxnResult result, std::move(outcome));
  if (result.failed_compare == txn.compares.size() - 1) {
    return MakeError(Reason::kCatalogRewound,
                     "the catalog is on another line than when this node began");
  }
  return result;
}

}  // namespace tilekv
