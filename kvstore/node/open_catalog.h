// Opening the catalog of a store's directory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/catalog/local_catalog.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

// `objects` is the directory's, open already. As LocalCatalog::Open, and a writer makes the catalog
// of a new store, whatever the options say of it. DATA_LOSS when the store has objects and no
// catalog: an empty one would make the collector delete them all. STORE_MISMATCH when the catalog
// is that of another store.
absl::StatusOr<std::unique_ptr<Catalog>> OpenStoreCatalog(LocalCatalogOptions options,
                                                          ObjectStore& objects);
// With the machine's own clock, randomness and disk.
absl::StatusOr<std::unique_ptr<Catalog>> OpenStoreCatalog(const std::string& directory,
                                                          bool read_only, ObjectStore& objects);

}  // namespace tilekv
