#include "tensor_chunking/model_reader.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/wire/object_messages.h"
#include "tensor_chunking/content_reader.h"
#include "tensor_chunking/manifest_codec.h"

namespace tilekv {
namespace {

absl::Status NotFoundError(const ModelName& name, const v1::ResolveVersionResponse& response) {
  std::string model = ModelName{.ns = name.ns, .name = name.name}.ToString();
  if (!response.model_exists()) {
    return MakeError(Reason::kNotFound, fmt::format("model '{}' is not in this store", model));
  }
  return MakeError(Reason::kNotFound,
                   fmt::format("model '{}' has no version '{}'; see 'tilekv model log {}'", model,
                               name.version.empty() ? "latest" : name.version, model));
}

std::string FullName(const v1::VersionInfo& version) {
  ModelName name{.ns = version.ns(),
                 .name = version.name(),
                 .version = std::to_string(version.record().number())};
  return name.ToString();
}

absl::StatusOr<std::string> RootContent(KvStore& store, v1::ResolveVersionResponse& response,
                                        const CallContext& context) {
  TILEKV_ASSIGN_OR_RETURN(ObjectRef root, ObjectRefFromWire(response.version().record().root()));
  if (!response.has_root_content()) return store.ReadObject(root, context);
  std::string content = std::move(*response.mutable_root_content());
  if (RefOf(root.level, AsBytes(content)) == root) return content;
  return MakeError(Reason::kDataLoss,
                   fmt::format("the root that came does not hash to {}", root.id.Short()));
}

absl::StatusOr<Manifest> LoadManifest(KvStore& store, const std::string& root_content,
                                      const ReaderOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(ManifestRoot root, DecodeManifestRoot(AsBytes(root_content)));
  std::vector<ObjectRef> refs;
  for (const ManifestPageRef& page : root.pages) refs.push_back(page.ref);
  std::vector<std::vector<TensorEntry>> pages;
  absl::Status read = ReadObjectsWhole(store, refs, options.context, [&](Bytes content) {
    TILEKV_ASSIGN_OR_RETURN(auto entries, DecodeManifestPage(content));
    pages.push_back(std::move(entries));
    return absl::OkStatus();
  });
  TILEKV_RETURN_IF_ERROR(WithContext(read, "manifest"));
  std::optional<std::map<std::string, std::string>> metadata;
  if (root.metadata_content.has_value()) {
    StringSink sink;
    std::shared_ptr<BufferPool> pool = BufferPool::Create(0);
    TILEKV_RETURN_IF_ERROR(
        ReadContent(store, *root.metadata_content, *pool, options.context, sink));
    TILEKV_ASSIGN_OR_RETURN(metadata, DecodeMetadata(AsBytes(sink.text())));
  }
  return AssembleManifest(std::move(root), std::move(pages), std::move(metadata));
}

// Beside the manifest, and as much again for lists of what is read.
uint64_t MemoryBeside(const Manifest& manifest, uint64_t memory_bytes) {
  return memory_bytes - std::min(2 * manifest.memory_bytes(), memory_bytes / 4 * 3);
}

}  // namespace

ModelReader::ModelReader(KvStore& store, const ReaderOptions& options, v1::VersionInfo version,
                         Manifest manifest)
    : store_(store),
      options_(options),
      version_(std::move(version)),
      manifest_(std::move(manifest)),
      memory_bytes_(MemoryBeside(manifest_, options.memory_bytes)),
      pool_(BufferPool::Create(memory_bytes_ / 4)),
      budget_(std::make_unique<ByteBudget>(memory_bytes_ / 2)),
      tiles_(store, *pool_, *budget_, DefaultThreads(options.threads), options.verify) {}

ModelReader::~ModelReader() = default;

absl::StatusOr<std::unique_ptr<ModelReader>> ModelReader::Open(KvStore& store,
                                                               const ModelName& name,
                                                               const ReaderOptions& options) {
  v1::ResolveVersionRequest request;
  request.set_ns(name.ns);
  request.set_name(name.name);
  request.set_version(name.version);
  request.set_with_root(true);
  TILEKV_ASSIGN_OR_RETURN(auto response, store.node().ResolveVersion(request, options.context));
  if (!response.found()) return NotFoundError(name, response);
  const std::string full_name = FullName(response.version());
  auto root = RootContent(store, response, options.context);
  if (!root.ok()) return WithContext(root.status(), full_name);
  auto manifest = LoadManifest(store, *root, options);
  if (!manifest.ok()) return WithContext(manifest.status(), full_name);
  return std::unique_ptr<ModelReader>(new ModelReader(
      store, options, std::move(*response.mutable_version()), *std::move(manifest)));
}

std::string ModelReader::full_name() const { return FullName(version_); }

absl::StatusOr<std::shared_ptr<const TensorEntry>> ModelReader::Find(std::string_view tensor) {
  const TensorEntry* entry = manifest_.FindTensor(tensor);
  if (entry == nullptr) {
    return MakeError(
        Reason::kNotFound,
        fmt::format("{} has no tensor '{}' among its {}; see 'tilekv tensor ls {}'", full_name(),
                    Printable(tensor), manifest_.tensors.size(), full_name()));
  }
  // Not owned: the manifest lives as long as the reader.
  if (!entry->is_listed())
    return std::shared_ptr<const TensorEntry>(std::shared_ptr<void>(), entry);
  {
    MutexLock lock(mutex_);
    auto found = listed_.find(entry->name);
    if (found != listed_.end()) return found->second;
  }
  auto whole = std::make_shared<TensorEntry>(*entry);
  std::vector<TileList> lists;
  absl::Status read =
      ReadObjectsWhole(store_, entry->tile_lists, options_.context, [&](Bytes content) {
        TILEKV_ASSIGN_OR_RETURN(TileList list, DecodeTileList(content));
        TILEKV_RETURN_IF_ERROR(CheckTileList(*entry, lists.size(), list));
        lists.push_back(std::move(list));
        return absl::OkStatus();
      });
  if (read.ok()) read = JoinTileLists(std::move(lists), *whole);
  TILEKV_RETURN_IF_ERROR(WithContext(read, fmt::format("tensor '{}'", Printable(entry->name))));
  MutexLock lock(mutex_);
  return listed_.emplace(entry->name, std::move(whole)).first->second;
}

absl::Status ModelReader::CheckSize(std::string_view tensor, uint64_t bytes,
                                    MutableBytes out) const {
  if (out.size() == bytes) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("tensor '{}': the result has {} bytes, its destination {}",
                               Printable(tensor), bytes, out.size()));
}

absl::Status ModelReader::ReadTensor(std::string_view tensor, MutableBytes out, ReadStats* stats) {
  TILEKV_ASSIGN_OR_RETURN(auto entry, Find(tensor));
  return ReadSlice(tensor, WholeSlice(entry->shape), out, stats);
}

absl::Status ModelReader::ReadSlice(std::string_view tensor, const ResolvedSlice& slice,
                                    MutableBytes out, ReadStats* stats) {
  TILEKV_ASSIGN_OR_RETURN(auto entry, Find(tensor));
  TILEKV_ASSIGN_OR_RETURN(ReadPlan plan, ReadPlan::Create(entry->dtype, entry->grid(), slice));
  TILEKV_RETURN_IF_ERROR(CheckSize(tensor, plan.result_bytes(), out));
  return tiles_.Run(*entry, plan, out.data(), stats, options_.context);
}

absl::Status ModelReader::ReadShard(std::string_view tensor, uint64_t rank, uint64_t world,
                                    int64_t axis, MutableBytes out, ReadStats* stats) {
  TILEKV_ASSIGN_OR_RETURN(auto entry, Find(tensor));
  TILEKV_ASSIGN_OR_RETURN(ResolvedSlice slice, ShardSlice(entry->shape, rank, world, axis));
  return ReadSlice(tensor, slice, out, stats);
}

absl::Status ModelReader::ReadRows(std::string_view tensor, std::span<const int64_t> rows,
                                   MutableBytes out, ReadStats* stats) {
  TILEKV_ASSIGN_OR_RETURN(auto entry, Find(tensor));
  TILEKV_ASSIGN_OR_RETURN(ReadPlan plan, ReadPlan::CreateRows(entry->dtype, entry->grid(), rows));
  TILEKV_RETURN_IF_ERROR(CheckSize(tensor, plan.result_bytes(), out));
  return tiles_.Run(*entry, plan, out.data(), stats, options_.context);
}

absl::Status ModelReader::ReadSideFile(const SideFile& file, ByteSink& sink) {
  absl::Status status = ReadContent(store_, file.content, *pool_, options_.context, sink);
  return WithContext(status, fmt::format("side file '{}'", Printable(file.path)));
}

absl::StatusOr<std::optional<ObjectRef>> ModelReader::SourceFilesRef() {
  TILEKV_ASSIGN_OR_RETURN(ObjectRef commit, ObjectRefFromWire(version_.record().commit()));
  TILEKV_ASSIGN_OR_RETURN(std::string content, store_.ReadObject(commit, options_.context));
  TILEKV_ASSIGN_OR_RETURN(auto children, DecodeTreeChildren(commit.level, AsBytes(content)));
  if (children.size() < 2) return std::nullopt;
  return children[1];
}

absl::StatusOr<std::optional<SourceFiles>> ModelReader::ReadSourceFiles() {
  TILEKV_ASSIGN_OR_RETURN(std::optional<ObjectRef> ref, SourceFilesRef());
  if (!ref.has_value()) return std::nullopt;
  TILEKV_ASSIGN_OR_RETURN(std::string content, store_.ReadObject(*ref, options_.context));
  TILEKV_ASSIGN_OR_RETURN(SourceFiles files, DecodeSourceFiles(AsBytes(content)));
  return files;
}

}  // namespace tilekv
