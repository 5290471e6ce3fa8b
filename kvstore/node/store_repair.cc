#include "kvstore/node/store_repair.h"

#include <memory>
#include <string>
#include <vector>

#include "kvstore/base/file_system.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/local_catalog.h"
#include "kvstore/object/index_rows.h"

namespace tilekv {
namespace {

absl::Status DropRounds(FileSystem& fs, const std::string& directory) {
  const std::string folder = directory + "/" + kRoundsFolder;
  absl::StatusOr<std::vector<std::string>> names = fs.List(folder);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  TILEKV_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    TILEKV_RETURN_IF_ERROR(fs.Unlink(folder + "/" + name));
  }
  return fs.SyncDirectory(folder);
}

}  // namespace

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
  TILEKV_ASSIGN_OR_RETURN(IndexRebuildReport report, RebuildIndex(options, touched_rev, context));
  TILEKV_RETURN_IF_ERROR(DropRounds(*options.file_system, options.directory));
  return report;
}

}  // namespace tilekv
