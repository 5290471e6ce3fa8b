#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/manifest_codec.h"
#include "tensor_chunking/manifest_wire.h"
#include "tensor_chunking/relative_path.h"

namespace tilekv {
namespace {

constexpr uint64_t kLeastEntryBytes = 4 + 1 + 3;
constexpr uint64_t kLeastPageRowBytes = 4 + 4 + 4;
constexpr uint64_t kLeastMetadataRowBytes = 4 + 4;
constexpr uint64_t kLeastSideFileBytes = 4 + 4 + 8;

absl::Status Damaged(std::string text) {
  return MakeError(Reason::kDataLoss, "manifest: " + std::move(text));
}

Shape ReadShape(OpaqueReader& in, uint8_t rank) {
  Shape shape(rank);
  for (uint64_t& size : shape) size = in.Read<uint64_t>();
  return shape;
}

void ReadTiles(OpaqueReader& in, uint64_t count, std::vector<TileRef>& tiles) {
  if (count > in.remaining() / kWholeTileBytes) {
    return in.Fail(fmt::format("{} tiles in its last {} bytes", count, in.remaining()));
  }
  tiles.reserve(count);
  for (uint64_t i = 0; i < count && in.status().ok(); ++i) tiles.push_back(in.ReadTileRef());
}

void ReadTensor(OpaqueReader& in, TensorEntry& entry) {
  const uint8_t code = in.Read<uint8_t>();
  const uint8_t rank = in.Read<uint8_t>();
  const uint8_t listed = in.Read<uint8_t>();
  if (!in.status().ok()) return;
  if (!DTypeFromCode(code, entry.dtype)) {
    return in.Fail(fmt::format("dtype {} is not known", code));
  }
  if (listed > 1) return in.Fail(fmt::format("its tiles are in form {}", listed));
  entry.shape = ReadShape(in, rank);
  entry.tile_shape = ReadShape(in, rank);
  if (!in.status().ok()) return;
  if (listed == 1) {
    entry.tiles_per_list = in.Read<uint64_t>();
    const uint32_t lists = in.ReadCount(4);
    for (uint32_t i = 0; i < lists; ++i) entry.tile_lists.push_back(in.ReadChild());
    if (entry.tile_lists.empty()) in.Fail("it has no tile lists");
    return;
  }
  absl::StatusOr<TileGrid> grid = TileGrid::Create(entry.dtype, entry.shape, entry.tile_shape);
  if (!grid.ok()) {
    absl::string_view why = grid.status().message();
    return in.Fail(std::string(why.data(), why.size()));
  }
  ReadTiles(in, grid->tile_count(), entry.tiles);
}

void ReadEntry(OpaqueReader& in, TensorEntry& entry) {
  entry.name = in.TakeText();
  in.SetContext(fmt::format("tensor '{}'", Printable(entry.name)));
  const uint8_t kind = in.Read<uint8_t>();
  if (kind == 0) {
    ReadTensor(in, entry);
  } else if (kind == 1) {
    entry.alias_of = std::string(in.TakeText());
  } else {
    in.Fail(fmt::format("entry kind {} is not known", kind));
  }
}

// Reads `count` rows of keys and values in ascending order; says what is wrong, if anything. After
// a short read a reader gives empty texts, which are out of order.
template <typename Reader>
std::string ReadMetadataRows(Reader& in, uint32_t count, std::map<std::string, std::string>& out) {
  for (uint32_t i = 0; i < count; ++i) {
    std::string key(in.TakeText());
    std::string value(in.TakeText());
    if (!out.empty() && key <= out.rbegin()->first) return "its metadata is out of order";
    out.emplace_hint(out.end(), std::move(key), std::move(value));
  }
  return {};
}

void ReadPageRefs(OpaqueReader& in, ManifestRoot& root) {
  const uint32_t pages = in.ReadCount(kLeastPageRowBytes);
  uint64_t entries = 0;
  for (uint32_t i = 0; i < pages && in.status().ok(); ++i) {
    ManifestPageRef page;
    page.ref = in.ReadChild();
    page.entries = in.Read<uint32_t>();
    page.first_name = in.TakeText();
    if (!in.status().ok()) return;
    if (page.ref.level != kManifestPageLevel || page.entries == 0) {
      return in.Fail(
          fmt::format("page {} has level {} and {} entries", i, page.ref.level, page.entries));
    }
    if (!root.pages.empty() && page.first_name <= root.pages.back().first_name) {
      return in.Fail(fmt::format("page {} is out of order", i));
    }
    entries += page.entries;
    root.pages.push_back(std::move(page));
  }
  if (entries != root.entries) {
    in.Fail(fmt::format("its pages have {} entries instead of {}", entries, root.entries));
  }
}

void ReadSideFiles(OpaqueReader& in, ManifestRoot& root) {
  const uint32_t files = in.ReadCount(kLeastSideFileBytes);
  for (uint32_t i = 0; i < files && in.status().ok(); ++i) {
    SideFile file;
    file.path = in.TakeText();
    file.content = in.ReadStoredContent();
    if (!in.status().ok()) return;
    if (absl::Status path = CheckRelativePath(file.path, Reason::kDataLoss); !path.ok()) {
      absl::string_view why = path.message();
      return in.Fail(std::string(why.data(), why.size()));
    }
    if (!root.side_files.empty() && file.path <= root.side_files.back().path) {
      return in.Fail(fmt::format("side file '{}' is out of order", Printable(file.path)));
    }
    root.side_files.push_back(std::move(file));
  }
}

}  // namespace

std::optional<size_t> ManifestRoot::PageOf(std::string_view name) const {
  auto above = std::upper_bound(pages.begin(), pages.end(), name,
                                [](std::string_view wanted, const ManifestPageRef& page) {
                                  return wanted < page.first_name;
                                });
  if (above == pages.begin()) return std::nullopt;
  return static_cast<size_t>(above - pages.begin()) - 1;
}

absl::StatusOr<ManifestRoot> DecodeManifestRoot(Bytes content) {
  TILEKV_ASSIGN_OR_RETURN(
      OpaqueReader in,
      OpaqueReader::Open("manifest root", TreeType::kManifestRoot, kManifestRootLevel, content));
  ManifestRoot root;
  root.entries = in.Read<uint64_t>();
  root.logical_bytes = in.Read<uint64_t>();
  ReadPageRefs(in, root);
  const uint8_t form = in.Read<uint8_t>();
  if (form == 0) {
    const uint32_t rows = in.ReadCount(kLeastMetadataRowBytes);
    std::string fault = ReadMetadataRows(in, rows, root.metadata);
    if (!fault.empty()) in.Fail(std::move(fault));
  } else if (form == 1) {
    root.metadata_content = in.ReadStoredContent();
  } else {
    in.Fail(fmt::format("metadata form {} is not known", form));
  }
  ReadSideFiles(in, root);
  TILEKV_RETURN_IF_ERROR(in.Finish());
  return root;
}

absl::StatusOr<std::vector<TensorEntry>> DecodeManifestPage(Bytes content) {
  TILEKV_ASSIGN_OR_RETURN(
      OpaqueReader in,
      OpaqueReader::Open("manifest page", TreeType::kManifestPage, kManifestPageLevel, content));
  const uint32_t count = in.ReadCount(kLeastEntryBytes);
  std::vector<TensorEntry> entries;
  for (uint32_t i = 0; i < count && in.status().ok(); ++i) {
    TensorEntry& entry = entries.emplace_back();
    ReadEntry(in, entry);
    TILEKV_RETURN_IF_ERROR(in.status());
    if (absl::Status checked = CheckTensor(entry, Reason::kDataLoss); !checked.ok()) {
      return WithContext(checked, "manifest page");
    }
    if (i > 0 && entry.name <= entries[i - 1].name) in.Fail("its name is out of order");
  }
  TILEKV_RETURN_IF_ERROR(in.Finish());
  return entries;
}

absl::StatusOr<TileList> DecodeTileList(Bytes content) {
  TILEKV_ASSIGN_OR_RETURN(OpaqueReader in, OpaqueReader::Open("tile list", TreeType::kTileList,
                                                              kTileListLevel, content));
  TileList list;
  list.first_tile = in.Read<uint64_t>();
  ReadTiles(in, in.ReadCount(kWholeTileBytes), list.tiles);
  TILEKV_RETURN_IF_ERROR(in.Finish());
  return list;
}

absl::StatusOr<std::map<std::string, std::string>> DecodeMetadata(Bytes content) {
  ByteReader in(content);
  const uint32_t count = in.Read<uint32_t>();
  if (count > in.rest().size() / kLeastMetadataRowBytes) return Damaged("its metadata is cut off");
  std::map<std::string, std::string> metadata;
  std::string fault = ReadMetadataRows(in, count, metadata);
  if (!in.ok()) return Damaged("its metadata is cut off");
  if (!fault.empty()) return Damaged(std::move(fault));
  if (!in.empty()) return Damaged("its metadata has bytes left over");
  return metadata;
}

absl::Status CheckTileList(const TensorEntry& entry, uint64_t index, const TileList& list) {
  auto bad = [&](std::string why) {
    return MakeError(Reason::kDataLoss, fmt::format("tensor '{}': tile list {} {}",
                                                    Printable(entry.name), index, why));
  };
  const TileGrid grid = entry.grid();
  TILEKV_CHECK(index < entry.tile_lists.size());
  const uint64_t first = index * entry.tiles_per_list;
  const uint64_t count = std::min(entry.tiles_per_list, grid.tile_count() - first);
  if (list.first_tile != first || list.tiles.size() != count) {
    return bad(fmt::format("has {} tiles from {} instead of {} from {}", list.tiles.size(),
                           list.first_tile, count, first));
  }
  for (uint64_t i = 0; i < count; ++i) {
    std::string fault = TileFault(list.tiles[i], grid.TileBytes(entry.dtype, first + i));
    if (!fault.empty()) return bad(fmt::format("is wrong: tile {} {}", first + i, fault));
  }
  return absl::OkStatus();
}

absl::Status JoinTileLists(std::vector<TileList> lists, TensorEntry& entry) {
  if (lists.size() != entry.tile_lists.size()) {
    return MakeError(Reason::kDataLoss,
                     fmt::format("tensor '{}': {} tile lists instead of {}", Printable(entry.name),
                                 lists.size(), entry.tile_lists.size()));
  }
  std::vector<TileRef> tiles;
  for (uint64_t i = 0; i < lists.size(); ++i) {
    TILEKV_RETURN_IF_ERROR(CheckTileList(entry, i, lists[i]));
    std::move(lists[i].tiles.begin(), lists[i].tiles.end(), std::back_inserter(tiles));
  }
  entry.tiles = std::move(tiles);
  entry.tile_lists.clear();
  entry.tiles_per_list = 0;
  return absl::OkStatus();
}

absl::StatusOr<Manifest> AssembleManifest(
    ManifestRoot root, std::vector<std::vector<TensorEntry>> pages,
    std::optional<std::map<std::string, std::string>> metadata) {
  if (pages.size() != root.pages.size()) {
    return Damaged(fmt::format("{} pages instead of {}", pages.size(), root.pages.size()));
  }
  Manifest manifest;
  size_t entries = 0;
  for (const std::vector<TensorEntry>& page : pages) entries += page.size();
  manifest.tensors.reserve(entries);
  for (size_t i = 0; i < pages.size(); ++i) {
    if (pages[i].size() != root.pages[i].entries ||
        pages[i].front().name != root.pages[i].first_name) {
      return Damaged(fmt::format("page {} is not the one that the root names", i));
    }
    std::move(pages[i].begin(), pages[i].end(), std::back_inserter(manifest.tensors));
    pages[i] = {};
  }
  if (root.metadata_content.has_value() != metadata.has_value()) {
    return Damaged("its metadata is not where the root says");
  }
  manifest.metadata = metadata.has_value() ? *std::move(metadata) : std::move(root.metadata);
  manifest.side_files = std::move(root.side_files);
  TILEKV_RETURN_IF_ERROR(CheckManifest(manifest, Reason::kDataLoss));
  if (manifest.logical_bytes() != root.logical_bytes) {
    return Damaged(fmt::format("its tensors are {} bytes, its root says {}",
                               manifest.logical_bytes(), root.logical_bytes));
  }
  return manifest;
}

}  // namespace tilekv
