// From a store's name on the command line to a store.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "client/cli/context.h"

namespace tilekv {

// As the request's access says; a store is made where the directory is missing or empty.
absl::StatusOr<std::unique_ptr<KvStore>> OpenStore(const StoreRequest& request);

}  // namespace tilekv
