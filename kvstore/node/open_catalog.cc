#include "kvstore/node/open_catalog.h"

#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<std::unique_ptr<Catalog>> OpenStoreCatalog(const std::string& directory,
                                                          bool read_only, ObjectStore& objects) {
  LocalCatalogOptions options;
  options.directory = directory;
  options.read_only = read_only;
  return OpenStoreCatalog(std::move(options), objects);
}

absl::StatusOr<std::unique_ptr<Catalog>> OpenStoreCatalog(LocalCatalogOptions options,
                                                          ObjectStore& objects) {
  options.create_if_missing = false;
  options.store_uuid = objects.store_uuid();
  absl::StatusOr<std::unique_ptr<LocalCatalog>> catalog = LocalCatalog::Open(options);
  if (GetReason(catalog.status()) == Reason::kNotFound && !options.read_only) {
    TILEKV_ASSIGN_OR_RETURN(StoreUsage usage, objects.Usage());
    if (usage.objects > 0) {
      return MakeError(Reason::kDataLoss,
                       fmt::format("'{}' holds {} objects but no catalog: their names are gone. "
                                   "Restore the directory 'catalog' from a backup",
                                   Printable(options.directory), usage.objects));
    }
    options.create_if_missing = true;
    catalog = LocalCatalog::Open(options);
  }
  TILEKV_RETURN_IF_ERROR(catalog.status());
  return std::unique_ptr<Catalog>(*std::move(catalog));
}

}  // namespace tilekv
