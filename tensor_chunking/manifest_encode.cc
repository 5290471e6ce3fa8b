#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/manifest_codec.h"
#include "tensor_chunking/manifest_wire.h"
#include "tensor_chunking/name_boundary.h"

namespace tilekv {
namespace {

constexpr int kPageBoundaryBits = 6;
constexpr uint64_t kTileListFixedBytes = TreeBytes(0, kOpaqueHeadBytes + 8 + 4);
constexpr uint64_t kPageFixedOpaqueBytes = kOpaqueHeadBytes + 4;

uint64_t PageLimit(uint64_t max_object_bytes) {
  return std::min(kManifestPageBytes, max_object_bytes);
}

absl::Status TooLarge(std::string what, uint64_t bytes, uint64_t limit) {
  return MakeError(
      Reason::kObjectTooLarge,
      fmt::format("{} takes {} bytes; at most {} ({}) are possible in this store", what,
                  FormatCount(bytes), FormatCount(limit), FormatSizeShort(limit)));
}

std::string EncodeMetadataMap(const std::map<std::string, std::string>& metadata) {
  std::string out;
  AppendLe<uint32_t>(out, static_cast<uint32_t>(metadata.size()));
  for (const auto& [key, value] : metadata) {
    AppendText(out, key);
    AppendText(out, value);
  }
  return out;
}

// An entry whose tiles are where its page will name them: inline, or in lists.
struct PlacedEntry {
  const TensorEntry* entry = nullptr;
  uint64_t tiles_per_list = 0;
  std::vector<ObjectRef> lists;

  bool listed() const { return !lists.empty(); }

  template <typename Visit>
  void ForEachChild(const Visit& visit) const {
    for (const ObjectRef& list : lists) visit(list);
    if (listed()) return;
    for (const TileRef& tile : entry->tiles) {
      if (tile.parts == nullptr) {
        visit(tile.object);
      } else {
        visit(tile.parts->base);
        visit(tile.parts->delta);
      }
    }
  }

  uint64_t OpaqueBytes() const {
    uint64_t bytes = 4 + entry->name.size() + 1;
    if (entry->is_alias()) return bytes + 4 + entry->alias_of->size();
    bytes += 3 + 16 * entry->shape.size();
    if (listed()) return bytes + 8 + 4 + 4 * lists.size();
    for (const TileRef& tile : entry->tiles) bytes += TileRefBytes(tile);
    return bytes;
  }

  void Append(ChildTable& children, std::string& out) const {
    AppendText(out, entry->name);
    AppendLe<uint8_t>(out, entry->is_alias() ? 1 : 0);
    if (entry->is_alias()) return AppendText(out, *entry->alias_of);
    AppendLe<uint8_t>(out, static_cast<uint8_t>(entry->dtype));
    AppendLe<uint8_t>(out, static_cast<uint8_t>(entry->shape.size()));
    AppendLe<uint8_t>(out, listed() ? 1 : 0);
    for (uint64_t size : entry->shape) AppendLe<uint64_t>(out, size);
    for (uint64_t size : entry->tile_shape) AppendLe<uint64_t>(out, size);
    if (listed()) {
      AppendLe<uint64_t>(out, tiles_per_list);
      AppendLe<uint32_t>(out, static_cast<uint32_t>(lists.size()));
      for (const ObjectRef& list : lists) AppendLe<uint32_t>(out, children.Number(list));
      return;
    }
    for (const TileRef& tile : entry->tiles) AppendTileRef(tile, children, out);
  }
};

class Encoder {
 public:
  Encoder(const Manifest& manifest, uint64_t max_object_bytes)
      : manifest_(manifest),
        max_object_bytes_(max_object_bytes),
        page_limit_(PageLimit(max_object_bytes)),
        page_soft_(std::min(kManifestPageSoftBytes, page_limit_ / 2)),
        tiles_per_list_(TilesPerList(max_object_bytes)) {}

  absl::StatusOr<std::vector<EncodedObject>> Encode() {
    for (const TensorEntry& entry : manifest_.tensors) {
      PlacedEntry placed{&entry, 0, {}};
      TILEKV_RETURN_IF_ERROR(PlaceTiles(placed));
      TILEKV_RETURN_IF_ERROR(AddToPage(placed));
    }
    EndPage();
    TILEKV_RETURN_IF_ERROR(EncodeRoot());
    return std::move(out_);
  }

 private:
  absl::Status PlaceTiles(PlacedEntry& placed) {
    const TensorEntry& entry = *placed.entry;
    if (entry.is_listed()) {
      if (entry.tiles_per_list != tiles_per_list_) {
        return MakeError(Reason::kInvalidArgument,
                         fmt::format("tensor '{}': its lists of {} tiles must be read, this store "
                                     "has {} in a list",
                                     Printable(entry.name), entry.tiles_per_list, tiles_per_list_));
      }
      placed.lists = entry.tile_lists;
      placed.tiles_per_list = tiles_per_list_;
      return absl::OkStatus();
    }
    if (!TilesAreListed(entry.tiles.size())) return absl::OkStatus();
    placed.tiles_per_list = tiles_per_list_;
    for (uint64_t at = 0; at < entry.tiles.size(); at += tiles_per_list_) {
      uint64_t count = std::min<uint64_t>(tiles_per_list_, entry.tiles.size() - at);
      ChildTable children;
      Tree tree{kTileListLevel, TreeType::kTileList, {}, {}};
      AppendOpaqueHead(tree.opaque);
      AppendLe<uint64_t>(tree.opaque, at);
      AppendLe<uint32_t>(tree.opaque, static_cast<uint32_t>(count));
      for (uint64_t i = at; i < at + count; ++i) {
        AppendTileRef(entry.tiles[i], children, tree.opaque);
      }
      tree.children = children.Take();
      out_.push_back(EncodeTreeObject(tree));
      placed.lists.push_back(out_.back().ref);
    }
    return absl::OkStatus();
  }

  // Bytes of the page as a tree, with the entry.
  uint64_t PageBytesWith(const PlacedEntry& placed) const {
    std::unordered_set<ObjectRef, ObjectRefHash> fresh;
    placed.ForEachChild([&](const ObjectRef& ref) {
      if (!page_children_.Has(ref)) fresh.insert(ref);
    });
    return TreeBytes(page_children_.size() + fresh.size(),
                     kPageFixedOpaqueBytes + page_.size() + placed.OpaqueBytes());
  }

  absl::Status AddToPage(const PlacedEntry& placed) {
    uint64_t bytes = PageBytesWith(placed);
    if (bytes > page_limit_ && page_entries_ > 0) {
      EndPage();
      bytes = PageBytesWith(placed);
    }
    if (bytes > page_limit_) {
      return TooLarge(
          fmt::format("the manifest entry of tensor '{}'", Printable(placed.entry->name)), bytes,
          page_limit_);
    }
    if (page_entries_ == 0) page_first_name_ = placed.entry->name;
    placed.Append(page_children_, page_);
    ++page_entries_;
    if (bytes >= page_soft_ && NameEndsRun(placed.entry->name, kPageBoundaryBits)) EndPage();
    return absl::OkStatus();
  }

  void EndPage() {
    if (page_entries_ == 0) return;
    Tree tree{kManifestPageLevel, TreeType::kManifestPage, page_children_.Take(), {}};
    AppendOpaqueHead(tree.opaque);
    AppendLe<uint32_t>(tree.opaque, page_entries_);
    tree.opaque += page_;
    out_.push_back(EncodeTreeObject(tree));
    pages_.push_back({out_.back().ref, page_entries_, std::move(page_first_name_)});
    page_.clear();
    page_entries_ = 0;
  }

  absl::Status AppendMetadata(ChildTable& children, std::string& opaque) {
    std::string metadata = EncodeMetadataMap(manifest_.metadata);
    const bool apart = metadata.size() > kInlineMetadataBytes;
    AppendLe<uint8_t>(opaque, apart ? 1 : 0);
    if (!apart) {
      opaque += metadata;
      return absl::OkStatus();
    }
    TILEKV_ASSIGN_OR_RETURN(StoredContent content,
                            EncodeInMemory(metadata, max_object_bytes_, out_));
    AppendContent(content, children, opaque);
    return absl::OkStatus();
  }

  absl::Status EncodeRoot() {
    ChildTable children;
    Tree tree{kManifestRootLevel, TreeType::kManifestRoot, {}, {}};
    std::string& opaque = tree.opaque;
    AppendOpaqueHead(opaque);
    AppendLe<uint64_t>(opaque, manifest_.tensors.size());
    AppendLe<uint64_t>(opaque, manifest_.logical_bytes());
    AppendLe<uint32_t>(opaque, static_cast<uint32_t>(pages_.size()));
    for (const ManifestPageRef& page : pages_) {
      AppendLe<uint32_t>(opaque, children.Number(page.ref));
      AppendLe<uint32_t>(opaque, page.entries);
      AppendText(opaque, page.first_name);
    }
    TILEKV_RETURN_IF_ERROR(AppendMetadata(children, opaque));
    AppendLe<uint32_t>(opaque, static_cast<uint32_t>(manifest_.side_files.size()));
    for (const SideFile& file : manifest_.side_files) {
      AppendText(opaque, file.path);
      AppendContent(file.content, children, opaque);
    }
    uint64_t bytes = TreeBytes(children.size(), opaque.size());
    if (bytes > max_object_bytes_ || children.size() > kMaxChildren) {
      return TooLarge(fmt::format("the manifest's root, with {} pages and {} side files,",
                                  pages_.size(), manifest_.side_files.size()),
                      bytes, max_object_bytes_);
    }
    tree.children = children.Take();
    out_.push_back(EncodeTreeObject(tree));
    return absl::OkStatus();
  }

  const Manifest& manifest_;
  const uint64_t max_object_bytes_;
  const uint64_t page_limit_;
  const uint64_t page_soft_;
  const uint64_t tiles_per_list_;
  std::vector<EncodedObject> out_;
  std::vector<ManifestPageRef> pages_;
  // The page that is being filled.
  ChildTable page_children_;
  std::string page_;
  uint32_t page_entries_ = 0;
  std::string page_first_name_;
};

}  // namespace

uint64_t TilesPerList(uint64_t max_object_bytes) {
  uint64_t limit = PageLimit(max_object_bytes);
  if (limit < kTileListFixedBytes + kGreatestTileBytes) return 1;
  return std::bit_floor((limit - kTileListFixedBytes) / kGreatestTileBytes);
}

bool TilesAreListed(uint64_t tiles) { return tiles > kInlineTilesBytes / kGreatestTileBytes; }

absl::StatusOr<std::vector<EncodedObject>> EncodeManifest(const Manifest& manifest,
                                                          uint64_t max_object_bytes) {
  TILEKV_RETURN_IF_ERROR(CheckManifest(manifest, Reason::kInvalidArgument));
  return Encoder(manifest, max_object_bytes).Encode();
}

}  // namespace tilekv
