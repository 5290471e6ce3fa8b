// WriteModel: one pass over the sources, then the manifest, then the commit.
//
// 1. The plan: tile shapes (those of the base where dtype and shape are equal), packs, units of
// work.
// 2. Units on several threads, each with one reservation for all that it holds: read, cut, hash,
// link, send what is missing.
// 3. The manifest's trees and the source files' object are put like everything else.
// 4. before_commit, then the commit (write_commit.h). A lost session anywhere repeats from 2 with a
// new one: what the store has is only linked.

#include "tensor_chunking/model_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/status.h"
#include "kvstore/object/chunked_blob.h"
#include "tensor_chunking/manifest_codec.h"
#include "tensor_chunking/model_reader.h"
#include "tensor_chunking/parallel.h"
#include "tensor_chunking/slab.h"
#include "tensor_chunking/tile_source.h"
#include "tensor_chunking/write_commit.h"
#include "tensor_chunking/write_plan.h"
#include "tensor_chunking/write_session.h"

namespace tilekv {
namespace {

class WritePass {
 public:
  WritePass(const WriteInput& input, const WriteOptions& options, const WritePlan& plan,
            uint64_t max_object_bytes, BufferPool& pool, ByteBudget& budget, WriteSession& session)
      : input_(input),
        options_(options),
        plan_(plan),
        max_object_bytes_(max_object_bytes),
        pool_(pool),
        budget_(budget),
        session_(session) {
    manifest_.tensors.reserve(plan.tensors.size() + input.aliases.size());
    for (const PlannedTensor& tensor : plan.tensors) {
      manifest_.tensors.push_back(
          {.name = tensor.source->name,
           .dtype = tensor.source->dtype,
           .shape = tensor.source->shape,
           .tile_shape = tensor.grid.tile_shape(),
           .tiles = std::vector<TileRef>(tensor.packed ? 1 : tensor.grid.tile_count())});
    }
    manifest_.side_files.resize(input.side_files.size());
  }

  // All tensors and side files are in the store when this returns, and the manifest names them.
  absl::StatusOr<Manifest> Run() {
    for (const WriteUnit& unit : plan_.units) progress_.total_bytes += unit.content_bytes;
    TILEKV_RETURN_IF_ERROR(ParallelFor(
        DefaultThreads(options_.threads), plan_.units.size(), options_.context, [&](size_t i) {
          const WriteUnit& unit = plan_.units[i];
          WriteCost cost;
          Reservation held;
          {
            TimedScope waiting(&cost.budget_nanos);
            TILEKV_ASSIGN_OR_RETURN(held, budget_.Acquire(unit.held_bytes, options_.context));
          }
          absl::Status status = RunUnit(unit, cost);
          session_.AddCost(cost);
          if (!status.ok()) return WithContext(status, UnitName(unit));
          Report(unit.content_bytes);
          return absl::OkStatus();
        }));
    for (const auto& [name, target] : input_.aliases) {
      manifest_.tensors.push_back({.name = name, .alias_of = target});
    }
    std::sort(manifest_.tensors.begin(), manifest_.tensors.end(),
              [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
    std::sort(manifest_.side_files.begin(), manifest_.side_files.end(),
              [](const SideFile& a, const SideFile& b) { return a.path < b.path; });
    manifest_.metadata = input_.metadata;
    return std::move(manifest_);
  }

 private:
  std::string UnitName(const WriteUnit& unit) const {
    switch (unit.kind) {
      case WriteUnit::Kind::kSlab:
      case WriteUnit::Kind::kTile:
        return fmt::format("tensor '{}'", Printable(plan_.tensors[unit.tensor].source->name));
      case WriteUnit::Kind::kPacks:
        return "small tensors";
      case WriteUnit::Kind::kSideFile:
        return fmt::format("side file '{}'", Printable(input_.side_files[unit.index].path));
    }
    return "";
  }

  absl::Status RunUnit(const WriteUnit& unit, WriteCost& cost) {
    switch (unit.kind) {
      case WriteUnit::Kind::kSlab:
        return RunSlab(unit, cost);
      case WriteUnit::Kind::kTile:
        return RunTile(unit, cost);
      case WriteUnit::Kind::kPacks:
        return RunPacks(unit, cost);
      case WriteUnit::Kind::kSideFile:
        return RunSideFile(unit.index, cost);
    }
    return absl::OkStatus();
  }

  template <typename Read>
  static absl::Status Timed(WriteCost& cost, const Read& read) {
    TimedScope reading(&cost.source_nanos);
    return read();
  }

  // `ref` names the content, where that is known already.
  absl::Status PutTile(const WriteUnit& unit, uint64_t tile, Bytes content,
                       std::optional<ObjectRef> ref = std::nullopt) {
    const TensorSource& source = *plan_.tensors[unit.tensor].source;
    WriteSession::Blob blob{content, DTypeFloatBytes(source.dtype), ref};
    TILEKV_ASSIGN_OR_RETURN(ObjectRef stored, session_.PutBlob(blob));
    manifest_.tensors[unit.tensor].tiles[tile] = WholeTile(stored);
    return absl::OkStatus();
  }

  // Cuts a tile out of `source`, in whose coordinates `region` is.
  absl::Status CutTile(const WriteUnit& unit, uint64_t tile, const TensorSource& source,
                       const Region& region, WriteCost& cost) {
    const PlannedTensor& tensor = plan_.tensors[unit.tensor];
    Buffer content = pool_.Get(tensor.grid.TileBytes(source.dtype, tile));
    TILEKV_ASSIGN_OR_RETURN(ObjectRef ref, ReadHashedRegion(source, region, content.span(), cost));
    return PutTile(unit, tile, content.span(), ref);
  }

  absl::Status RunSlab(const WriteUnit& unit, WriteCost& cost) {
    const PlannedTensor& tensor = plan_.tensors[unit.tensor];
    const TensorSource& source = *tensor.source;
    Slab slab = SlabAt(tensor.grid, source.dtype, unit.index);
    Buffer whole = pool_.Get(slab.length);
    TILEKV_RETURN_IF_ERROR(
        Timed(cost, [&] { return ReadFrom(source, slab.offset, whole.span()); }));
    if (slab.tile_count == 1) return PutTile(unit, slab.first_tile, whole.span());
    const TensorSource part{
        .dtype = source.dtype, .shape = slab.region.extent, .content = whole.span()};
    for (uint64_t t = slab.first_tile; t < slab.first_tile + slab.tile_count; ++t) {
      Region region = tensor.grid.TileRegion(t);
      region.start[0] -= slab.region.start[0];
      TILEKV_RETURN_IF_ERROR(CutTile(unit, t, part, region, cost));
    }
    return absl::OkStatus();
  }

  absl::Status RunTile(const WriteUnit& unit, WriteCost& cost) {
    const PlannedTensor& tensor = plan_.tensors[unit.tensor];
    const TensorSource& source = *tensor.source;
    if (!source.content.empty() && TilesAreSlabs(tensor.grid)) {
      Slab slab = SlabAt(tensor.grid, source.dtype, unit.index);
      return PutTile(unit, unit.index, source.content.subspan(slab.offset, slab.length));
    }
    return CutTile(unit, unit.index, source, tensor.grid.TileRegion(unit.index), cost);
  }

  absl::Status RunPacks(const WriteUnit& unit, WriteCost& cost) {
    std::vector<Buffer> buffers;
    std::vector<WriteSession::Blob> blobs;
    for (uint64_t p = unit.index; p < unit.index + unit.count; ++p) {
      const Pack& pack = plan_.packs[p];
      Buffer& buffer = buffers.emplace_back(pool_.Get(pack.length_bytes));
      std::fill_n(buffer.data(), pack.length_bytes, uint8_t{0});
      for (const PackEntry& entry : pack.entries) {
        const PlannedTensor& tensor = plan_.tensors[entry.candidate];
        absl::Status read = Timed(cost, [&] {
          return ReadFrom(*tensor.source, 0,
                          buffer.span().subspan(entry.offset_bytes, tensor.bytes));
        });
        TILEKV_RETURN_IF_ERROR(
            WithContext(read, fmt::format("tensor '{}'", Printable(tensor.source->name))));
      }
      blobs.push_back({buffer.span(), FloatBytesOf(pack)});
    }
    TILEKV_ASSIGN_OR_RETURN(std::vector<ObjectRef> refs, session_.PutBlobs(blobs));
    for (uint64_t p = 0; p < unit.count; ++p) {
      for (const PackEntry& entry : plan_.packs[unit.index + p].entries) {
        manifest_.tensors[entry.candidate].tiles[0] = TileWithin(
            refs[p], blobs[p].content, entry.offset_bytes, plan_.tensors[entry.candidate].bytes);
      }
    }
    return absl::OkStatus();
  }

  // Of all its tensors; 0 where they differ.
  uint8_t FloatBytesOf(const Pack& pack) const {
    auto width = [&](const PackEntry& entry) {
      return DTypeFloatBytes(plan_.tensors[entry.candidate].source->dtype);
    };
    uint8_t first = pack.entries.empty() ? uint8_t{0} : width(pack.entries.front());
    bool same = std::all_of(pack.entries.begin(), pack.entries.end(),
                            [&](const PackEntry& entry) { return width(entry) == first; });
    return same ? first : uint8_t{0};
  }

  absl::Status RunSideFile(uint64_t index, WriteCost& cost) {
    const SideFileSource& file = input_.side_files[index];
    SideFile& entry = manifest_.side_files[index];
    entry.path = file.path;
    entry.content.length_bytes = file.length;
    uint64_t chunk = ChunkBytes(max_object_bytes_);
    if (file.length <= chunk) {
      Buffer content = pool_.Get(file.length);
      TILEKV_RETURN_IF_ERROR(Timed(cost, [&] { return file.read(0, content.span()); }));
      TILEKV_ASSIGN_OR_RETURN(entry.content.ref, session_.PutBlob({content.span()}));
      return absl::OkStatus();
    }
    ChunkedBlobBuilder builder(max_object_bytes_, [&](const ObjectRef& ref, std::string content) {
      EncodedObject tree{ref, std::move(content)};
      return session_.PutEncoded({&tree, 1});
    });
    for (uint64_t at = 0; at < file.length; at += chunk) {
      Buffer content = pool_.Get(std::min(chunk, file.length - at));
      TILEKV_RETURN_IF_ERROR(Timed(cost, [&] { return file.read(at, content.span()); }));
      TILEKV_ASSIGN_OR_RETURN(ObjectRef piece, session_.PutBlob({content.span()}));
      TILEKV_RETURN_IF_ERROR(builder.Add(piece));
    }
    TILEKV_ASSIGN_OR_RETURN(BlobChunk whole, builder.Finish());
    entry.content.ref = whole.ref;
    return absl::OkStatus();
  }

  void Report(uint64_t bytes) {
    if (options_.progress == nullptr) return;
    MutexLock lock(mutex_);
    progress_.done_bytes += bytes;
    options_.progress(progress_);
  }

  const WriteInput& input_;
  const WriteOptions& options_;
  const WritePlan& plan_;
  const uint64_t max_object_bytes_;
  BufferPool& pool_;
  ByteBudget& budget_;
  WriteSession& session_;
  Manifest manifest_;  // units write to distinct elements
  Mutex mutex_;
  WriteProgress progress_;
};

// The version whose tile shapes are taken over: as asked, or the target's latest; null where there
// is none.
absl::StatusOr<std::unique_ptr<ModelReader>> OpenBase(KvStore& store, const ModelName& target,
                                                      const WriteOptions& options) {
  ReaderOptions reading{.memory_bytes = options.memory_bytes, .context = options.context};
  if (options.base.has_value()) return ModelReader::Open(store, *options.base, reading);
  auto latest = ModelReader::Open(store, {.ns = target.ns, .name = target.name}, reading);
  // One that is not there, or damaged, has no tile shapes to give; storing the same again may heal
  // it.
  Reason reason = GetReason(latest.status());
  if (reason == Reason::kNotFound || reason == Reason::kDataLoss) return nullptr;
  return latest;
}

BaseTileShape TileShapesOf(const ModelReader* base) {
  return [base](const TensorSource& source) -> const Shape* {
    const TensorEntry* entry = base == nullptr ? nullptr : base->manifest().Find(source.name);
    bool same = entry != nullptr && !entry->is_alias() && entry->dtype == source.dtype &&
                entry->shape == source.shape;
    return same ? &entry->tile_shape : nullptr;
  };
}

// Whether the commit would be refused for what is known already.
bool ConditionFails(const WriteCondition& condition, uint64_t latest) {
  switch (condition.kind) {
    case WriteCondition::Kind::kNone:
      return false;
    case WriteCondition::Kind::kAbsent:
      return latest != 0;
    case WriteCondition::Kind::kVersion:
      return latest != condition.version;
  }
  return false;
}

// Gives its root. Of many tensors a manifest takes much memory, so it goes as soon as it is
// encoded.
absl::StatusOr<ObjectRef> PutManifest(Manifest manifest, uint64_t max_object_bytes,
                                      WriteSession& session) {
  TILEKV_ASSIGN_OR_RETURN(auto encoded, EncodeManifest(manifest, max_object_bytes));
  manifest = {};
  TILEKV_RETURN_IF_ERROR(session.PutEncoded(encoded));
  return encoded.back().ref;
}

absl::StatusOr<std::optional<ObjectRef>> PutSourceFiles(
    const std::optional<SourceFilesInput>& input, uint64_t max_object_bytes,
    WriteSession& session) {
  if (!input.has_value()) return std::nullopt;
  SourceFiles files = input->files;
  std::vector<EncodedObject> objects;
  for (size_t i = 0; i < files.files.size(); ++i) {
    objects.clear();  // one header at a time: they can be large
    TILEKV_ASSIGN_OR_RETURN(files.files[i].header,
                            EncodeInMemory(input->headers[i], max_object_bytes, objects));
    TILEKV_RETURN_IF_ERROR(session.PutEncoded(objects));
  }
  objects.clear();
  if (files.index.has_value()) {
    TILEKV_ASSIGN_OR_RETURN(files.index->content,
                            EncodeInMemory(input->index, max_object_bytes, objects));
  }
  TILEKV_ASSIGN_OR_RETURN(EncodedObject tree, EncodeSourceFiles(files, max_object_bytes));
  ObjectRef ref = tree.ref;
  objects.push_back(std::move(tree));
  TILEKV_RETURN_IF_ERROR(session.PutEncoded(objects));
  return ref;
}

}  // namespace

absl::StatusOr<WriteReport> WriteModel(KvStore& store, const ModelName& target,
                                       const WriteInput& input, const WriteOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(uint64_t max_object_bytes, store.MaxObjectBytes(options.context));
  TILEKV_ASSIGN_OR_RETURN(auto base, OpenBase(store, target, options));
  if (!options.base.has_value() && base != nullptr &&
      ConditionFails(options.if_latest, base->version().record().number())) {
    return WriteReport{.latest_found = base->version().record().number()};
  }
  TILEKV_ASSIGN_OR_RETURN(WritePlan plan,
                          PlanUnits(input, max_object_bytes, options, TileShapesOf(base.get())));
  const uint64_t in_flight_bytes =
      options.memory_bytes - std::min(plan.memory_bytes(), options.memory_bytes / 2);
  auto pool = BufferPool::Create(in_flight_bytes / 4);
  ByteBudget budget(in_flight_bytes);
  CommitFacts facts{.tensors = plan.tensors.size(), .logical_bytes = plan.logical_bytes};
  if (options.base.has_value()) facts.base = VersionOf(*base);
  base.reset();  // its manifest is not needed any more
  auto report = CommitInSession(
      store, target, options, facts, [&](WriteSession& session) -> absl::StatusOr<CommitTrees> {
        WritePass pass(input, options, plan, max_object_bytes, *pool, budget, session);
        TILEKV_ASSIGN_OR_RETURN(Manifest manifest, pass.Run());
        CommitTrees trees;
        TILEKV_ASSIGN_OR_RETURN(trees.root,
                                PutManifest(std::move(manifest), max_object_bytes, session));
        TILEKV_ASSIGN_OR_RETURN(trees.sources,
                                PutSourceFiles(input.source_files, max_object_bytes, session));
        trees.tiles = plan.tiles;
        return trees;
      });
  if (report.ok()) {
    report->threads = static_cast<int>(
        std::min<size_t>(DefaultThreads(options.threads), std::max<size_t>(plan.units.size(), 1)));
  }
  return report;
}

absl::StatusOr<WriteForecast> PlanWrite(KvStore& store, const ModelName& target,
                                        const WriteInput& input, const WriteOptions& options) {
  TILEKV_ASSIGN_OR_RETURN(uint64_t max_object_bytes, store.MaxObjectBytes(options.context));
  TILEKV_ASSIGN_OR_RETURN(auto base, OpenBase(store, target, options));
  TILEKV_ASSIGN_OR_RETURN(WritePlan plan,
                          PlanUnits(input, max_object_bytes, options, TileShapesOf(base.get())));
  WriteForecast forecast{.rows = {}, .tiles = plan.tiles};
  for (const PlannedTensor& tensor : plan.tensors) {
    forecast.rows.push_back({.name = tensor.source->name,
                             .dtype = tensor.source->dtype,
                             .shape = tensor.source->shape,
                             .tile_shape = tensor.grid.tile_shape(),
                             .bytes = tensor.bytes,
                             .tiles = tensor.packed ? 0 : tensor.grid.tile_count()});
  }
  return forecast;
}

}  // namespace tilekv
