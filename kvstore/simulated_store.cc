#include "kvstore/simulated_store.h"

#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/node/local_node.h"
#include "kvstore/node/open_catalog.h"
#include "kvstore/node_store.h"
#include "kvstore/object/read_only_engine.h"

namespace tilekv {
namespace {

// In the order of their lives.
struct OwnedNode {
  std::unique_ptr<ObjectStore> objects;
  std::unique_ptr<Catalog> catalog;
  std::unique_ptr<LocalNode> node;
};

}  // namespace

absl::Status SimulatedStore::Open() { return OpenAs(false); }
absl::Status SimulatedStore::OpenToRead() { return OpenAs(true); }

absl::Status SimulatedStore::OpenAs(bool read_only) {
  auto owned = std::make_shared<OwnedNode>();
  LocalEngineOptions engine;
  engine.directory = kDirectory;
  engine.create_if_missing = !read_only;
  engine.file_system = disk.file_system();
  engine.rocksdb_env = &env;
  engine.clock = &clock;
  engine.random = &random_;
  engine.max_object_bytes = max_object_bytes;
  if (read_only) {
    TILEKV_ASSIGN_OR_RETURN(owned->objects, ReadOnlyEngine::Open(engine));
  } else {
    TILEKV_ASSIGN_OR_RETURN(owned->objects, LocalEngine::Open(engine));
  }
  LocalCatalogOptions catalog;
  catalog.directory = kDirectory;
  catalog.read_only = read_only;
  catalog.rocksdb_env = &env;
  catalog.clock = &clock;
  catalog.random = &random_;
  TILEKV_ASSIGN_OR_RETURN(owned->catalog, OpenStoreCatalog(std::move(catalog), *owned->objects));
  // The disk damages no log: what it tears was never acknowledged.
  if (!read_only) {
    TILEKV_RETURN_IF_ERROR(owned->objects->NothingIsMissing());
    TILEKV_RETURN_IF_ERROR(owned->catalog->EndDoubt());
  }
  NodeOptions node;
  node.kind = "embedded";
  node.clock = &clock;
  node.random = &random_;
  TILEKV_ASSIGN_OR_RETURN(owned->node, LocalNode::Create(*owned->objects, *owned->catalog, node));
  NodeStoreOptions options;
  options.uri = "simulated:";
  options.retry.random = &random_;
  options.retry.sleep = [](int64_t) {};
  objects_ = owned->objects.get();
  store_ = NewNodeStore(std::shared_ptr<NodeService>(owned, owned->node.get()), std::move(options));
  return absl::OkStatus();
}

void SimulatedStore::LosePower(SimulatedDisk::Loss loss) {
  disk.PowerOff();
  Close();
  disk.PowerOn(loss);
}

}  // namespace tilekv
