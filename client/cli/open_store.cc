#include "client/cli/open_store.h"

#include "client/connect.h"
#include "kvstore/base/status.h"
#include "kvstore/model_name.h"

namespace tilekv {

absl::StatusOr<std::unique_ptr<KvStore>> OpenStore(const StoreRequest& request) {
  TILEKV_ASSIGN_OR_RETURN(StoreUri uri, StoreUri::Parse(request.uri));
  if (uri.kind == StoreUri::Kind::kMemory) {
    return MakeError(Reason::kInvalidArgument,
                     "a store in memory is gone when the command ends; name a directory, or a "
                     "server as tilekv://HOST[:PORT]");
  }
  ConnectOptions options;
  options.open.max_object_bytes = request.max_object_bytes;
  options.open.read_only = request.access == Access::kRead;
  options.open.create_if_missing = request.access == Access::kWrite;
  options.open.memory_bytes = request.memory_bytes;
  options.context = request.context;
  options.waiting = request.waiting;
  return Connect(request.uri, options);
}

}  // namespace tilekv
