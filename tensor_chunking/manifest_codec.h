// Manifests as objects and back (docs/formats.md, section 8): a root, pages of tensor entries, and
// tile lists of very large tensors.
//
// Opening a model reads the root and the pages; tile lists, long metadata and side files are read
// when they are needed. Encoding is deterministic: equal manifests give equal objects. Decoding
// takes bytes that nobody vouches for: it allocates in proportion to what it is given and checks
// everything that can be checked on one object; AssembleManifest checks what holds between them.
// Pure and thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/object/object_id.h"
#include "tensor_chunking/manifest.h"
#include "tensor_chunking/stored_content.h"

namespace tilekv {

inline constexpr uint8_t kTileListLevel = 1;
inline constexpr uint8_t kManifestPageLevel = 2;
inline constexpr uint8_t kManifestRootLevel = 3;

// --- encoding

// Every object of the manifest that is not a tile or a side file: children before parents, the root
// last. Tensors whose tile lists were never read keep them. INVALID_ARGUMENT for a manifest that is
// not right (CheckManifest); OBJECT_TOO_LARGE, naming the tensor where it is one, where an entry
// outgrows a page or the root the object limit.
absl::StatusOr<std::vector<EncodedObject>> EncodeManifest(const Manifest& manifest,
                                                          uint64_t max_object_bytes);
// Tiles in one tile list, in a store of this object limit.
uint64_t TilesPerList(uint64_t max_object_bytes);
// Whether a tensor of so many tiles has them in lists.
bool TilesAreListed(uint64_t tiles);

// --- decoding; DATA_LOSS says what is wrong, naming the tensor where it is one

struct ManifestPageRef {
  ObjectRef ref;
  uint32_t entries = 0;
  std::string first_name;
};

struct ManifestRoot {
  uint64_t entries = 0;  // tensors and aliases
  uint64_t logical_bytes = 0;
  std::vector<ManifestPageRef> pages;
  std::map<std::string, std::string> metadata;
  std::optional<StoredContent> metadata_content;  // where it is not inline: see DecodeMetadata
  std::vector<SideFile> side_files;

  // The page that would hold this name; none where every name is above it.
  std::optional<size_t> PageOf(std::string_view name) const;
};

struct TileList {
  uint64_t first_tile = 0;
  std::vector<TileRef> tiles;
};

absl::StatusOr<ManifestRoot> DecodeManifestRoot(Bytes content);
// Entries in ascending order of names; large tensors are listed.
absl::StatusOr<std::vector<TensorEntry>> DecodeManifestPage(Bytes content);
absl::StatusOr<TileList> DecodeTileList(Bytes content);
absl::StatusOr<std::map<std::string, std::string>> DecodeMetadata(Bytes content);

// That list `index` of a listed tensor is what the entry says: its place, its count, its tiles'
// lengths. Needed before any tile of it is used.
absl::Status CheckTileList(const TensorEntry& entry, uint64_t index, const TileList& list);
// The entry with its tiles, from all its lists in order.
absl::Status JoinTileLists(std::vector<TileList> lists, TensorEntry& entry);

// One manifest from a root and all its pages in order. `metadata` where the root has it apart.
absl::StatusOr<Manifest> AssembleManifest(
    ManifestRoot root, std::vector<std::vector<TensorEntry>> pages,
    std::optional<std::map<std::string, std::string>> metadata = std::nullopt);

}  // namespace tilekv
