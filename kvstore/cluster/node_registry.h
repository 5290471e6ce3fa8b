// A node's registration in the catalog: `nodes/<id>` under a lease, which says that the node is
// here, where, and how it is. A hint for routing, for membership and for people.
//
// A heartbeat first overwrites a block on the node's disk (cluster_file.h), then renews the lease:
// a node whose disk fails or hangs goes away by itself. A lease that was lost, whatever the reason,
// is followed by a new one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/base/clock.h"
#include "kvstore/base/defaults.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/cluster/cluster_file.h"
#include "tilekv/v1/cluster.pb.h"

namespace tilekv {

// By id.
using Registrations = std::map<std::string, v1::NodeRegistration, std::less<>>;

// None: damaged, or of a program that writes something else.
std::optional<v1::NodeRegistration> ParseRegistration(std::string_view value);

struct NodeRegistryOptions {
  std::string node_id;
  int64_t lease_s = kNodeLease_s;
  // How old what it says of objects and disk may be; health and address never are.
  int64_t figures_every_s = kNodeFiguresEvery_s;
  Clock* clock = Clock::System();
};

// One thread at a time.
class NodeRegistry {
 public:
  // `describe` says how the node is now. Catalog and file outlive the registry.
  NodeRegistry(Catalog& catalog, ClusterFile& file, const NodeRegistryOptions& options,
               std::function<v1::NodeRegistration()> describe);

  // Once every kHeartbeatEvery_ms. STORE_FAILED and the like: the disk, and the lease was not
  // renewed; NODE_UNAVAILABLE and the like: the catalog; STORE_MISMATCH: a node with another store
  // is registered under this id. All is tried again by the next call.
  absl::Status Beat();
  // Ends the lease, so that all others know at once. Beat begins anew.
  absl::Status Leave();
  // How often a lease was begun: each time but the first one was lost before.
  int64_t leases() const { return leases_; }

 private:
  absl::Status Register();
  bool IsDue(const v1::NodeRegistration& now) const;
  absl::Status Write(const v1::NodeRegistration& now);

  Catalog& catalog_;
  ClusterFile& file_;
  const NodeRegistryOptions options_;
  const std::function<v1::NodeRegistration()> describe_;
  const std::string key_;
  LeaseId lease_ = 0;
  int64_t leases_ = 0;
  std::optional<v1::NodeRegistration> written_;  // under this lease
  Revision revision_;                            // of what was written; 0: not known
  int64_t written_nanos_ = 0;
};

}  // namespace tilekv
