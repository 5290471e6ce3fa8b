#include "client/connect.h"

#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/model_name.h"
#include "kvstore/node_store.h"

namespace tilekv {
namespace {

absl::StatusOr<std::unique_ptr<KvStore>> ConnectNodes(const StoreUri& uri,
                                                      const ConnectOptions& options) {
  absl::Status failed;
  for (const std::string& address : uri.hosts) {
    auto node = ConnectNode(address, options.remote);
    if (!node.ok()) {
      failed = failed.ok() ? node.status() : WithContext(node.status(), ErrorText(failed));
      continue;
    }
    NodeStoreOptions store;
    store.uri = uri.ToString();
    store.pool = BufferPool::Create(options.open.memory_bytes / 4);
    return NewNodeStore(*std::move(node), std::move(store));
  }
  return failed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<KvStore>> Connect(std::string_view text,
                                                 const ConnectOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(StoreUri uri, StoreUri::Parse(text));
  switch (uri.kind) {
    case StoreUri::Kind::kNodes:
      return ConnectNodes(uri, options);
    case StoreUri::Kind::kDirectory:
      return OpenEmbeddedStore(uri.directory, options.open);
    case StoreUri::Kind::kMemory:
      return OpenMemoryStore(options.open.max_object_bytes.value_or(kDefaultMaxObjectBytes));
  }
  return MakeError(Reason::kInternal, "a kind of store that there is not");
}

}  // namespace tilekv
