// Opening a store, wherever it is. This is where a program begins.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/remote_node.h"
#include "kvstore/kv_store.h"

namespace tilekv {

struct ConnectOptions {
  OpenOptions open;      // of a store in a directory
  RemoteOptions remote;  // of a store behind a server
  CallContext context;   // of the opening alone
  // Told once by each call that waits for a node and tries again, from the thread that calls.
  std::function<void(const absl::Status& failed)> waiting;
};

// `uri` is tilekv://HOST[:PORT][,HOST...], file:DIR, or DIR. Of several hosts the first that
// answers is used, and the connect timeout is for all of them; where it is a node of a cluster, the
// others take its place when it goes away. NODE_UNAVAILABLE names the addresses
// and what to check; a directory's errors are those of OpenEmbeddedStore.
absl::StatusOr<std::unique_ptr<KvStore>> Connect(std::string_view uri,
                                                 const ConnectOptions& options = {});

}  // namespace tilekv
