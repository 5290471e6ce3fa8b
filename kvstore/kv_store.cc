#include "kvstore/kv_store.h"

#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/catalog/memory_catalog.h"
#include "kvstore/node/local_node.h"
#include "kvstore/node/open_catalog.h"
#include "kvstore/node_store.h"
#include "kvstore/object/local_engine.h"
#include "kvstore/object/memory_object_store.h"
#include "kvstore/object/read_only_engine.h"

namespace tilekv {
namespace {

// A node and what it stands on, in the order of their lives.
struct OwnedNode {
  std::unique_ptr<ObjectStore> objects;
  std::unique_ptr<Catalog> catalog;
  std::unique_ptr<LocalNode> node;
};

absl::StatusOr<std::shared_ptr<NodeService>> MakeNode(std::unique_ptr<ObjectStore> objects,
                                                      std::unique_ptr<Catalog> catalog,
                                                      const NodeOptions& options) {
  auto owned = std::make_shared<OwnedNode>();
  owned->objects = std::move(objects);
  owned->catalog = std::move(catalog);
  TILEKV_ASSIGN_OR_RETURN(owned->node,
                          LocalNode::Create(*owned->objects, *owned->catalog, options));
  return std::shared_ptr<NodeService>(owned, owned->node.get());
}

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenEngine(const LocalEngineOptions& options,
                                                        bool read_only) {
  if (read_only) {
    TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> engine, ReadOnlyEngine::Open(options));
    return engine;
  }
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> engine, LocalEngine::Open(options));
  return engine;
}

}  // namespace

absl::StatusOr<std::optional<Value>> KvStore::Get(std::string_view key, const ByteRange& range) {
  StringSink sink;
  TILEKV_ASSIGN_OR_RETURN(std::optional<ValueInfo> info, Get(key, sink, range));
  if (!info) return std::nullopt;
  return Value{*std::move(info), std::move(sink.text())};
}

absl::StatusOr<std::string> KvStore::ReadObject(const ObjectRef& ref, const CallContext& context) {
  std::string content(ref.length, '\0');
  MutableBytes out(reinterpret_cast<uint8_t*>(content.data()), content.size());
  ObjectRead read{ref, 0, out};
  TILEKV_RETURN_IF_ERROR(ReadObjects({&read, 1}, nullptr, context));
  return content;
}

absl::StatusOr<std::unique_ptr<KvStore>> OpenMemoryStore(uint64_t max_object_bytes) {
  NodeOptions options;
  options.kind = "memory";
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<NodeService> node,
                          MakeNode(std::make_unique<MemoryObjectStore>(max_object_bytes),
                                   std::make_unique<MemoryCatalog>(), options));
  NodeStoreOptions store;
  store.uri = "memory:";
  return NewNodeStore(std::move(node), std::move(store));
}

absl::StatusOr<std::unique_ptr<KvStore>> OpenEmbeddedStore(const std::string& directory,
                                                           const OpenOptions& options) {
  auto pool = BufferPool::Create(options.memory_bytes / 4);
  LocalEngineOptions engine_options;
  engine_options.directory = directory;
  engine_options.create_if_missing = options.create_if_missing && !options.read_only;
  engine_options.max_object_bytes = options.max_object_bytes;
  engine_options.pool = pool;
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> objects,
                          OpenEngine(engine_options, options.read_only));
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<Catalog> catalog,
                          OpenStoreCatalog(directory, options.read_only, *objects));
  NodeOptions node_options;
  node_options.kind = "embedded";
  node_options.pool = pool;
  // Beside a writer nothing is written, nor need be: collecting is the writer's.
  if (!options.read_only) node_options.scratch = {FileSystem::Posix(), directory + "/tmp"};
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<NodeService> node,
                          MakeNode(std::move(objects), std::move(catalog), node_options));
  NodeStoreOptions store;
  store.uri = "file:" + directory;
  store.pool = pool;
  return NewNodeStore(std::move(node), std::move(store));
}

}  // namespace tilekv
