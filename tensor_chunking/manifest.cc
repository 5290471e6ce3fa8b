#include "tensor_chunking/manifest.h"

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"
#include "kvstore/object/object_hash.h"
#include "tensor_chunking/relative_path.h"

namespace tilekv {
namespace {

absl::Status BadTensor(Reason reason, std::string_view name, std::string_view why) {
  return MakeError(reason, fmt::format("tensor '{}': {}", Printable(name), why));
}

PartHash HashOfId(const ObjectId& id) {
  PartHash hash;
  std::copy_n(id.bytes.begin(), hash.size(), hash.begin());
  return hash;
}

absl::Status CheckTiles(const TensorEntry& entry, const TileGrid& grid, Reason reason) {
  if (entry.is_listed()) {
    if (!entry.tiles.empty() || entry.tiles_per_list == 0 ||
        entry.tile_lists.size() != CeilDiv(grid.tile_count(), entry.tiles_per_list)) {
      return BadTensor(
          reason, entry.name,
          fmt::format("{} lists of {} tiles do not make its {} tiles", entry.tile_lists.size(),
                      entry.tiles_per_list, grid.tile_count()));
    }
    for (const ObjectRef& list : entry.tile_lists) {
      if (list.level != 1)
        return BadTensor(reason, entry.name, "a tile list is no tree of level 1");
    }
    return absl::OkStatus();
  }
  if (entry.tiles.size() != grid.tile_count()) {
    return BadTensor(reason, entry.name,
                     fmt::format("{} tiles instead of {}", entry.tiles.size(), grid.tile_count()));
  }
  for (uint64_t i = 0; i < entry.tiles.size(); ++i) {
    std::string fault = TileFault(entry.tiles[i], grid.TileBytes(entry.dtype, i));
    if (!fault.empty()) return BadTensor(reason, entry.name, fmt::format("tile {} {}", i, fault));
  }
  return absl::OkStatus();
}

absl::Status CheckAlias(const Manifest& manifest, const TensorEntry& entry, Reason reason) {
  const TensorEntry* target = manifest.Find(*entry.alias_of);
  if (target != nullptr && !target->is_alias()) return absl::OkStatus();
  return BadTensor(reason, entry.name,
                   fmt::format("it is an alias of '{}', which is {}", Printable(*entry.alias_of),
                               target == nullptr ? "not there" : "an alias itself"));
}

}  // namespace

PartHash HashPart(Bytes content) { return HashOfId(IdOf(0, content)); }

bool TileRef::SameContent(const TileRef& other) const {
  if (length_bytes != other.length_bytes) return false;
  if (!is_part() && !other.is_part()) return object == other.object;
  const PartHash own = is_part() ? part_hash : HashOfId(object.id);
  return own == (other.is_part() ? other.part_hash : HashOfId(other.object.id));
}

TileRef WholeTile(const ObjectRef& blob) {
  TileRef tile;
  tile.object = blob;
  tile.length_bytes = blob.length;
  return tile;
}

TileRef TileWithin(const ObjectRef& blob, Bytes blob_content, uint64_t offset_bytes,
                   uint64_t length_bytes) {
  TileRef tile = WholeTile(blob);
  tile.offset_bytes = offset_bytes;
  tile.length_bytes = length_bytes;
  if (tile.is_part()) tile.part_hash = HashPart(blob_content.subspan(offset_bytes, length_bytes));
  return tile;
}

TileGrid TensorEntry::grid() const {
  absl::StatusOr<TileGrid> grid = TileGrid::Create(dtype, shape, tile_shape);
  TILEKV_CHECK(grid.ok());
  return *std::move(grid);
}

uint64_t TensorEntry::bytes() const {
  if (is_alias()) return 0;
  absl::StatusOr<uint64_t> bytes = TensorBytes(dtype, shape);
  TILEKV_CHECK(bytes.ok());
  return *bytes;
}

const TensorEntry* Manifest::Find(std::string_view name) const {
  auto at = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const TensorEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

const TensorEntry* Manifest::FindTensor(std::string_view name) const {
  const TensorEntry* entry = Find(name);
  return entry != nullptr && entry->is_alias() ? Find(*entry->alias_of) : entry;
}

uint64_t Manifest::logical_bytes() const {
  uint64_t sum = 0;
  for (const TensorEntry& entry : tensors) sum += entry.bytes();
  return sum;
}

uint64_t Manifest::memory_bytes() const {
  // Of each block, for the allocator's own sake.
  constexpr uint64_t kBlock = 16;
  uint64_t sum = tensors.capacity() * sizeof(TensorEntry);
  for (const TensorEntry& entry : tensors) {
    sum += 4 * kBlock + entry.name.capacity() + entry.tiles.capacity() * sizeof(TileRef) +
           (entry.shape.capacity() + entry.tile_shape.capacity()) * sizeof(uint64_t) +
           entry.tile_lists.capacity() * sizeof(ObjectRef);
  }
  for (const SideFile& file : side_files) sum += sizeof file + file.path.capacity();
  for (const auto& [key, value] : metadata) sum += 4 * kBlock + key.capacity() + value.capacity();
  return sum;
}

std::string TileFault(const TileRef& tile, uint64_t expected_bytes) {
  if (tile.length_bytes != expected_bytes) {
    return fmt::format("is {} bytes instead of {}", tile.length_bytes, expected_bytes);
  }
  if (tile.object.level != 0) return fmt::format("has level {}", tile.object.level);
  if (tile.offset_bytes > tile.object.length ||
      tile.length_bytes > tile.object.length - tile.offset_bytes) {
    return fmt::format("takes {} bytes at {} of an object of {}", tile.length_bytes,
                       tile.offset_bytes, tile.object.length);
  }
  if (tile.parts != nullptr && tile.is_part()) return "is a part of what base and xor make";
  // Zeros are the hash of nothing that will be found.
  if (tile.is_part() == (tile.part_hash == PartHash{})) {
    return tile.is_part() ? "is a part of an object, without a hash"
                          : "is a whole object, with the hash of a part";
  }
  if (tile.parts == nullptr) return {};
  for (const ObjectRef& part : {tile.parts->base, tile.parts->delta}) {
    if (part.level != 0 || part.length != tile.object.length) {
      return fmt::format("of {} bytes is made of an object of level {} and {} bytes",
                         tile.object.length, part.level, part.length);
    }
  }
  return {};
}

absl::Status CheckTensorName(std::string_view name, Reason reason) {
  if (name.size() > kMaxTensorNameBytes) {
    return BadTensor(reason, name,
                     fmt::format("its name is {} bytes; at most {} are taken", name.size(),
                                 kMaxTensorNameBytes));
  }
  if (!IsValidUtf8(name)) return BadTensor(reason, name, "its name is not UTF-8");
  if (name.find('\0') != std::string_view::npos) {
    return BadTensor(reason, name, "its name holds a NUL");
  }
  return absl::OkStatus();
}

absl::Status CheckTensor(const TensorEntry& entry, Reason reason) {
  TILEKV_RETURN_IF_ERROR(CheckTensorName(entry.name, reason));
  if (entry.is_alias()) {
    if (!entry.shape.empty() || !entry.tiles.empty() || entry.is_listed()) {
      return BadTensor(reason, entry.name, "it is an alias with tiles of its own");
    }
    return CheckTensorName(*entry.alias_of, reason);
  }
  absl::StatusOr<TileGrid> grid = TileGrid::Create(entry.dtype, entry.shape, entry.tile_shape);
  if (!grid.ok()) {
    absl::string_view why = grid.status().message();
    return BadTensor(reason, entry.name, std::string_view(why.data(), why.size()));
  }
  return CheckTiles(entry, *grid, reason);
}

absl::Status CheckManifest(const Manifest& manifest, Reason reason) {
  const TensorEntry* previous = nullptr;
  uint64_t sum = 0;
  for (const TensorEntry& entry : manifest.tensors) {
    if (previous != nullptr && entry.name <= previous->name) {
      return BadTensor(reason, entry.name,
                       fmt::format("it stands after '{}'; names ascend, and none is there twice",
                                   Printable(previous->name)));
    }
    previous = &entry;
    TILEKV_RETURN_IF_ERROR(CheckTensor(entry, reason));
    if (!CheckedAdd(sum, entry.bytes(), sum)) {
      return BadTensor(reason, entry.name, "with it the tensors are 2^64 bytes or more");
    }
  }
  for (const TensorEntry& entry : manifest.tensors) {
    if (entry.is_alias()) TILEKV_RETURN_IF_ERROR(CheckAlias(manifest, entry, reason));
  }
  for (size_t i = 0; i < manifest.side_files.size(); ++i) {
    const SideFile& file = manifest.side_files[i];
    TILEKV_RETURN_IF_ERROR(CheckRelativePath(file.path, reason));
    if (absl::Status status = CheckStoredContent(file.content, reason); !status.ok()) {
      return WithContext(status, fmt::format("side file '{}'", Printable(file.path)));
    }
    if (i > 0 && file.path <= manifest.side_files[i - 1].path) {
      return MakeError(
          reason, fmt::format("side file '{}' stands after '{}'; paths ascend, and "
                              "none is there twice",
                              Printable(file.path), Printable(manifest.side_files[i - 1].path)));
    }
  }
  return absl::OkStatus();
}

}  // namespace tilekv
