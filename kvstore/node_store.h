// NodeStore: a KvStore over one NodeService, wherever that is: in this process or behind gRPC.
#pragma once

#include <memory>
#include <string>

#include "kvstore/base/buffer_pool.h"
#include "kvstore/kv_store.h"
#include "kvstore/retrying_node.h"

namespace tilekv {

struct NodeStoreOptions {
  std::string uri;
  RetryOptions retry;
  // Buffers of streaming reads and puts come from here; none: a pool of the store's own.
  std::shared_ptr<BufferPool> pool;
  // Concurrent puts of small values go together: where the node is behind a network.
  bool grouped_puts = false;
};

std::unique_ptr<KvStore> NewNodeStore(std::shared_ptr<NodeService> node, NodeStoreOptions options);

}  // namespace tilekv
