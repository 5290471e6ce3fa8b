// Opening a store, wherever it is. This is where a program begins.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/remote_node.h"
#include "kvstore/kv_store.h"

namespace tilekv {

struct ConnectOptions {
  OpenOptions open;      // of a store in a directory
  RemoteOptions remote;  // of a store behind a server
};

// `uri` is tilekv://HOST[:PORT][,HOST...], file:DIR, or DIR. Of several hosts the first that
// answers is used. NODE_UNAVAILABLE names the addresses and what to check; a directory's errors are
// those of OpenEmbeddedStore.
absl::StatusOr<std::unique_ptr<KvStore>> Connect(std::string_view uri,
                                                 const ConnectOptions& options = {});

}  // namespace tilekv
