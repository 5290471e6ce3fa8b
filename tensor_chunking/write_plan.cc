#include "tensor_chunking/write_plan.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/chunked_blob.h"
#include "tensor_chunking/manifest.h"
#include "tensor_chunking/relative_path.h"
#include "tensor_chunking/slab.h"

namespace tilekv {
namespace {

constexpr uint64_t kPackGroupBytes = kDefaultTileBytes;

absl::StatusOr<PlannedTensor> PlanTensor(const TensorSource& source, uint64_t max_object_bytes,
                                         const WriteOptions& options,
                                         const BaseTileShape& base_shape) {
  PlannedTensor planned{.source = &source};
  TILEKV_RETURN_IF_ERROR(CheckTensorName(source.name, Reason::kInvalidArgument));
  TILEKV_ASSIGN_OR_RETURN(planned.bytes, TensorBytes(source.dtype, source.shape));
  if (!source.content.empty() && source.content.size() != planned.bytes) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("tensor '{}': {} of shape {} has {} bytes, its content {}",
                    Printable(source.name), DTypeName(source.dtype), FormatShape(source.shape),
                    FormatCount(planned.bytes), FormatCount(source.content.size())));
  }
  planned.packed = GoesToPack(planned.bytes, max_object_bytes);
  // A layout that was asked for is what is made; only `auto` follows the base.
  const Shape* kept = options.layout.kind == LayoutKind::kAuto ? base_shape(source) : nullptr;
  Shape tile_shape;
  if (kept != nullptr && CheckTileShape(source.dtype, source.shape, *kept, max_object_bytes).ok()) {
    tile_shape = *kept;
  } else {
    TILEKV_ASSIGN_OR_RETURN(tile_shape, PlanLayout(source.dtype, source.shape, options.layout,
                                                   options.tile_bytes, max_object_bytes));
  }
  TILEKV_ASSIGN_OR_RETURN(planned.grid, TileGrid::Create(source.dtype, source.shape, tile_shape));
  return planned;
}

void AddTensorUnits(const PlannedTensor& tensor, uint64_t index, uint64_t memory_bytes,
                    std::vector<WriteUnit>& units) {
  DType dtype = tensor.source->dtype;
  const uint64_t scratch = tensor.source->scratch_bytes;
  const bool in_memory = !tensor.source->content.empty();
  uint64_t slabs = SlabCount(tensor.grid);
  for (uint64_t s = 0; s < slabs; ++s) {
    Slab slab = SlabAt(tensor.grid, dtype, s);
    if (slab.tile_count == 1 && in_memory) {
      units.push_back({WriteUnit::Kind::kTile, index, s, 1, slab.length, 0});
      continue;
    }
    if (slab.tile_count == 1) {
      units.push_back({WriteUnit::Kind::kSlab, index, s, 1, slab.length, slab.length + scratch});
      continue;
    }
    uint64_t largest = tensor.grid.TileBytes(dtype, slab.first_tile);
    uint64_t held = slab.length + largest + scratch;
    if (held <= memory_bytes / 2 && !in_memory) {
      units.push_back({WriteUnit::Kind::kSlab, index, s, 1, slab.length, held});
      continue;
    }
    for (uint64_t t = 0; t < slab.tile_count; ++t) {
      uint64_t bytes = tensor.grid.TileBytes(dtype, slab.first_tile + t);
      units.push_back(
          {WriteUnit::Kind::kTile, index, slab.first_tile + t, 1, bytes, bytes + scratch});
    }
  }
}

void AddPackUnits(const std::vector<Pack>& packs, std::vector<WriteUnit>& units) {
  for (size_t i = 0; i < packs.size(); ++i) {
    uint64_t bytes = packs[i].length_bytes;
    bool joins = !units.empty() && units.back().kind == WriteUnit::Kind::kPacks &&
                 units.back().held_bytes + bytes <= kPackGroupBytes &&
                 units.back().count < kMaxBatchOperations;
    if (!joins) units.push_back({WriteUnit::Kind::kPacks, 0, i, 0, 0, 0});
    ++units.back().count;
    units.back().content_bytes += bytes;
    units.back().held_bytes += bytes;
  }
}

// Whatever names alone can tell, before any content is read.
absl::Status CheckNames(const WriteInput& input, const std::vector<PlannedTensor>& tensors) {
  auto find = [&](const std::string& name) {
    auto at = std::lower_bound(
        tensors.begin(), tensors.end(), name,
        [](const PlannedTensor& tensor, const std::string& n) { return tensor.source->name < n; });
    return at != tensors.end() && at->source->name == name;
  };
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].source->name == tensors[i - 1].source->name) {
      return MakeError(Reason::kInvalidArgument, fmt::format("tensor '{}' is there twice",
                                                             Printable(tensors[i].source->name)));
    }
  }
  for (const auto& [name, target] : input.aliases) {
    if (find(name)) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("alias '{}' has the name of a tensor", Printable(name)));
    }
    if (!find(target)) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("alias '{}' names '{}', which is no tensor of the model",
                                   Printable(name), Printable(target)));
    }
  }
  std::set<std::string_view> paths;
  for (const SideFileSource& file : input.side_files) {
    TILEKV_RETURN_IF_ERROR(CheckRelativePath(file.path, Reason::kInvalidArgument));
    if (!paths.insert(file.path).second) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("side file '{}' is there twice", Printable(file.path)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t WritePlan::memory_bytes() const {
  constexpr uint64_t kBlock = 16;  // of each, for the allocator's own sake
  uint64_t sum = units.capacity() * sizeof(WriteUnit);
  for (const Pack& pack : packs) {
    sum += sizeof pack + pack.entries.capacity() * sizeof(PackEntry);
  }
  for (const PlannedTensor& tensor : tensors) {
    // Shape, tile shape and counts in the grid; name, shape, tile shape and tiles in the manifest.
    sum += sizeof(PlannedTensor) + sizeof(TensorEntry) + 7 * kBlock + tensor.source->name.size() +
           5 * tensor.grid.rank() * sizeof(uint64_t) +
           (tensor.packed ? 1 : tensor.grid.tile_count()) * sizeof(TileRef);
  }
  return sum;
}

absl::StatusOr<WritePlan> PlanUnits(const WriteInput& input, uint64_t max_object_bytes,
                                    const WriteOptions& options, const BaseTileShape& base_shape) {
  WritePlan plan;
  plan.tensors.reserve(input.tensors.size());
  for (const TensorSource& source : input.tensors) {
    auto planned = PlanTensor(source, max_object_bytes, options, base_shape);
    if (!planned.ok()) {
      return WithContext(planned.status(), fmt::format("tensor '{}'", Printable(source.name)));
    }
    plan.tensors.push_back(*std::move(planned));
  }
  std::sort(plan.tensors.begin(), plan.tensors.end(),
            [](const PlannedTensor& a, const PlannedTensor& b) {
              return a.source->name < b.source->name;
            });
  TILEKV_RETURN_IF_ERROR(CheckNames(input, plan.tensors));
  std::vector<PackCandidate> candidates;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const PlannedTensor& tensor = plan.tensors[i];
    candidates.push_back({tensor.source->name, tensor.bytes});
    plan.logical_bytes += tensor.bytes;
    if (tensor.packed) continue;
    AddTensorUnits(tensor, i, options.memory_bytes, plan.units);
    plan.tiles += tensor.grid.tile_count();
  }
  plan.packs = PlanPacks(candidates, max_object_bytes);
  plan.tiles += plan.packs.size();
  AddPackUnits(plan.packs, plan.units);
  for (size_t i = 0; i < input.side_files.size(); ++i) {
    uint64_t length = input.side_files[i].length;
    uint64_t held = std::min(length, ChunkBytes(max_object_bytes));
    plan.units.push_back({WriteUnit::Kind::kSideFile, 0, i, 1, length, held});
    plan.logical_bytes += length;
  }
  return plan;
}

}  // namespace tilekv
