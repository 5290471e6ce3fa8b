// etcd's calls over gRPC: members, credentials, tokens, deadlines. gRPC stays inside.
//
// 1. One connection to each member; calls go to one member until it fails to answer, then to the
//    next. A try ends after try_ms, so that a member that hangs leaves time for another.
// 2. A write is sent only to a member that answered the last time; to one that did not, a read goes
//    first. So a catalog that is known to be away fails with nothing sent, and not with unknown
//    outcomes.
// 3. With a user, each call carries a token, asked for when there is none and again when etcd does
//    not take it any more. An etcd without passwords is used without one.
// 4. Deadlines are of the monotonic clock: the wall clock may be moved.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kvstore/catalog/etcd/etcd_options.h"
#include "kvstore/catalog/etcd/etcd_rpc.h"

namespace tilekv {

// Connects later. INVALID_ARGUMENT: addresses, files that cannot be read.
absl::StatusOr<std::unique_ptr<EtcdRpc>> MakeEtcdGrpc(const EtcdOptions& options);

}  // namespace tilekv
