#include "client/cli/open_store.h"

#include "client/connect.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<std::unique_ptr<KvStore>> OpenStore(const StoreRequest& request) {
  ConnectOptions options;
  options.open.max_object_bytes = request.max_object_bytes;
  options.open.read_only = request.access == Access::kRead;
  options.open.create_if_missing = request.access == Access::kWrite;
  options.open.memory_bytes = request.memory_bytes;
  return Connect(request.uri, options);
}

}  // namespace tilekv
