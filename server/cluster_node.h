// What makes a process a node of a cluster: etcd as its catalog, its place in the map, its
// registration, and what it does about the cluster by itself. A node by itself has none of this.
//
// In the order of its life: Reach, Open, Join, Leave. Without gRPC in this header.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/defaults.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/catalog/etcd/etcd_options.h"
#include "kvstore/node/cluster_admin.h"
#include "kvstore/node/copy_survey.h"
#include "kvstore/node/shared_collection.h"
#include "kvstore/object/object_store.h"
#include "kvstore/placement/cluster_map.h"
#include "server/memory_plan.h"
#include "server/peer_service.h"
#include "server/server_metrics.h"

namespace tilekv {

struct ClusterNodeOptions {
  EtcdOptions etcd;  // no endpoints: a node by itself
  std::string etcd_password_file;
  uint64_t etcd_quota_bytes = kEtcdQuotaBytes;  // as etcd was told
  std::string node_id;                          // empty: see JoiningNode
  std::string advertise;                        // HOST:PORT; empty: where it listens
  std::string host;                             // empty: the machine's name
  std::string zone;
  uint32_t weight_milli = kWeightOne_milli;

  bool is_set() const { return !etcd.endpoints.empty(); }
};
// INVALID_ARGUMENT where no node can join so.
absl::Status CheckClusterOptions(const ClusterNodeOptions& options);

// Waits so many milliseconds. False: the process is to end.
using WaitFunction = std::function<bool(int64_t ms)>;

class ClusterNode {
 public:
  // Waits until etcd answers and has the cluster, and says so in the log. CANCELLED where `wait`
  // says that the process is to end; what no waiting helps is told at once.
  static absl::StatusOr<std::unique_ptr<ClusterNode>> Reach(const ClusterNodeOptions& options,
                                                            const WaitFunction& wait);
  // Leaves where Leave was not called. Servers and node are gone before.
  virtual ~ClusterNode() = default;

  // As it was when etcd was reached: what the store in the data directory is made for.
  virtual const ClusterMap& map() const = 0;
  // `engine` is the store in `directory`, for this cluster; it outlives this object, as `pool`
  // does. `listen` is where this node will answer. INVALID_ARGUMENT where the map has another store
  // under its id; CATALOG_REWOUND where the node has seen a newer map.
  virtual absl::Status Open(ObjectStore& engine, const std::string& directory,
                            const std::string& listen, const MemoryPlan& plan,
                            std::shared_ptr<BufferPool> pool) = 0;

  // --- after Open
  virtual Catalog& catalog() = 0;
  virtual ObjectStore& objects() = 0;  // of the cluster
  virtual ClusterAdmin& admin() = 0;
  virtual SharedCollection& collection() = 0;
  virtual CopySurvey& survey() = 0;
  virtual PeerServiceOptions peer_service() = 0;
  virtual ClusterFigures figures() = 0;

  // The node answers at its address: into the map, and here for all others from now on.
  virtual absl::Status Join() = 0;
  // All others know at once that it is going away.
  virtual void Leave() = 0;
};

}  // namespace tilekv
