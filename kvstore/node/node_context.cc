#include "kvstore/node/node_context.h"

#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/cluster_admin.h"
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
      holds_rounds(options.holds_rounds),
      cluster(options.cluster),
      collection(options.collection),
      survey(options.survey) {}

absl::Status NodeContext::Start() {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, catalog.Get(kLineKey));
  v1::LineRecord line;
  if (!entry || !line.ParseFromString(entry->value) || line.line_id().size() != 16) {
    return MakeError(Reason::kDataLoss, "the catalog's record of its line is gone or damaged");
  }
  line_id_ = line.line_id();
  line_revision_ = entry->mod_revision;
  TILEKV_ASSIGN_OR_RETURN(start_revision_, catalog.CurrentRevision());
  return absl::OkStatus();
}

absl::Status NodeContext::CheckHealth() {
  TILEKV_RETURN_IF_ERROR(objects.CheckWritable(0));
  return catalog.CheckWritable();
}

absl::StatusOr<TxnResult> NodeContext::Txn(CatalogTxn txn, TxnPurpose purpose) {
  if (purpose == TxnPurpose::kRemove) {
    objects.MakeRoomForDelete();
  } else {
    uint64_t added_bytes = 0;
    for (const CatalogWrite& write : txn.writes) {
      added_bytes += write.key.size() + (write.value ? write.value->size() : 0);
    }
    TILEKV_RETURN_IF_ERROR(objects.CheckWritable(added_bytes));
    if (cluster != nullptr) TILEKV_RETURN_IF_ERROR(cluster->CheckRoomForNames());
  }
  txn.compares.push_back(Compare::Mod(kLineKey, line_revision_));
  TILEKV_ASSIGN_OR_RETURN(TxnResult result, catalog.Txn(txn));
  if (result.failed_compare == txn.compares.size() - 1) {
    return MakeError(Reason::kCatalogRewound,
                     "the catalog is on another line than when this node began");
  }
  return result;
}

}  // namespace tilekv
