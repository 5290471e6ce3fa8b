#include "kvstore/node/store_repair.h"

#include <memory>

#include "kvstore/base/status.h"
#include "kvstore/catalog/local_catalog.h"
#include "kvstore/object/index_rows.h"

namespace tilekv {

absl::StatusOr<IndexRebuildReport> RebuildStoreIndex(const LocalEngineOptions& options,
                                                     const CallContext& context) {
  Revision touched_rev = kUnsettledRevision;
  LocalCatalogOptions catalog_options;
  catalog_options.directory = options.directory;
  catalog_options.read_only = true;
  catalog_options.rocksdb_env = options.rocksdb_env;
  absl::StatusOr<std::unique_ptr<LocalCatalog>> catalog = LocalCatalog::Open(catalog_options);
  if (catalog.ok()) {
    TILEKV_ASSIGN_OR_RETURN(touched_rev, (*catalog)->CurrentRevision());
  } else if (GetReason(catalog.status()) != Reason::kNotFound) {
    return WithContext(catalog.status(),
                       "the catalog must be readable before the index is made anew");
  }
  return RebuildIndex(options, touched_rev, context);
}

}  // namespace tilekv
