#include "client/connect.h"

#include <algorithm>
#include <utility>

#include "kvstore/base/clock.h"
#include "kvstore/base/status.h"
#include "kvstore/model_name.h"
#include "kvstore/node_store.h"

namespace tilekv {
namespace {

constexpr int64_t kNanosPerMilli = 1'000'000;

// A node of a cluster answers for all of it: where it goes away, another of the hosts does. Other
// nodes are stores by themselves, and what was begun at one has no meaning at another.
absl::StatusOr<std::shared_ptr<NodeService>> WithTheOthers(std::shared_ptr<NodeService> node,
                                                           std::vector<std::string> hosts,
                                                           size_t answered,
                                                           const RemoteOptions& remote,
                                                           const ConnectOptions& options) {
  if (hosts.size() == 1) return node;
  TILEKV_ASSIGN_OR_RETURN(v1::InfoResponse info, node->Info({}, options.context));
  if (info.cluster().empty()) return node;
  std::rotate(hosts.begin(), hosts.begin() + static_cast<ptrdiff_t>(answered), hosts.end());
  return ConnectAnyNode(hosts, remote, options.context);
}

absl::StatusOr<std::unique_ptr<KvStore>> ConnectNodes(const StoreUri& uri,
                                                      const ConnectOptions& options) {
  absl::Status failed;
  const int64_t until_nanos =
      Clock::System()->MonotonicNanos() + options.remote.connect_timeout_ms * kNanosPerMilli;
  size_t hosts_left = uri.hosts.size();
  for (size_t i = 0; i < uri.hosts.size(); ++i) {
    const std::string& address = uri.hosts[i];
    RemoteOptions remote = options.remote;
    int64_t left_nanos = until_nanos - Clock::System()->MonotonicNanos();
    remote.connect_timeout_ms =
        std::max<int64_t>(1, left_nanos / static_cast<int64_t>(hosts_left--) / kNanosPerMilli);
    auto node = ConnectNode(address, remote, options.context);
    if (options.context.cancelled()) return options.context.Check();
    if (!node.ok()) {
      failed = failed.ok() ? node.status() : WithContext(node.status(), ErrorText(failed));
      continue;
    }
    TILEKV_ASSIGN_OR_RETURN(node, WithTheOthers(*std::move(node), uri.hosts, i, remote, options));
    NodeStoreOptions store;
    store.uri = uri.ToString();
    store.retry.waiting = options.waiting;
    store.grouped_puts = true;
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
