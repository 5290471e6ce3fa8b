#include "client/cli/init_cluster.h"

#include <cstdlib>

#include "kvstore/base/file_system.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/etcd/etcd_catalog.h"
#include "kvstore/catalog/etcd/etcd_endpoints.h"
#include "kvstore/cluster/cluster_join.h"
#include "kvstore/cluster/map_store.h"

namespace tilekv {
namespace {

constexpr uint64_t kMaxPasswordBytes = 4 * kKiB;

absl::StatusOr<std::string> Given(const std::string& value, const char* variable,
                                  const char* flag) {
  if (!value.empty()) return value;
  const char* found = std::getenv(variable);
  if (found != nullptr && *found != '\0') return std::string(found);
  return MakeError(Reason::kInvalidArgument, std::string(flag) + " is missing; or set " + variable);
}

}  // namespace

absl::StatusOr<ClusterMap> InitClusterInEtcd(const ClusterInitRequest& request) {
  EtcdOptions options;
  TILEKV_ASSIGN_OR_RETURN(std::string etcd, Given(request.etcd, "TILEKV_ETCD", "--etcd"));
  options.endpoints = SplitEndpoints(etcd);
  TILEKV_ASSIGN_OR_RETURN(options.cluster, Given(request.cluster, "TILEKV_CLUSTER", "--cluster"));
  options.ca_file = request.ca_file;
  options.cert_file = request.cert_file;
  options.key_file = request.key_file;
  options.user = request.user;
  if (!request.password_file.empty()) {
    TILEKV_ASSIGN_OR_RETURN(
        std::string text, ReadFile(*FileSystem::Posix(), request.password_file, kMaxPasswordBytes));
    options.password = text.substr(0, text.find('\n'));
  }
  // Settings that no cluster can have leave nothing behind.
  TILEKV_RETURN_IF_ERROR(
      ClusterMap::Make(1, std::string(32, '0'), options.cluster, request.settings).status());
  options.create_if_missing = true;
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<EtcdCatalog> catalog, EtcdCatalog::Open(options));
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<MapStore> maps, MapStore::Open(*catalog));
  return InitCluster(*maps, options.cluster, request.settings, *Random::System());
}

}  // namespace tilekv
