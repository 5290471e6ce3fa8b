// Manifests for tests: random ones, and the way through their objects and back.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"
#include "tensor_chunking/manifest_codec.h"

namespace tilekv {

inline ObjectRef FakeRef(uint64_t number, uint64_t length, uint8_t level = 0) {
  ObjectRef ref;
  std::string text = fmt::format("object {}", number);
  ref.id = IdOf(0, AsBytes(text));
  ref.level = level;
  ref.length = length;
  return ref;
}

inline TileRef FakePart(const ObjectRef& object, uint64_t offset, uint64_t length) {
  TileRef tile;
  tile.object = object;
  tile.offset_bytes = offset;
  tile.length_bytes = length;
  tile.part_hash = HashPart(AsBytes(fmt::format("part at {}", offset)));
  return tile;
}

inline TileRef FakeXor(const ObjectRef& result, const ObjectRef& base, const ObjectRef& delta) {
  TileRef tile = WholeTile(result);
  tile.parts = std::make_shared<XorParts>(XorParts{base, delta});
  return tile;
}

// A tensor of `tiles` tiles of 4 bytes, each an object of its own.
inline TensorEntry FakeTensor(std::string name, uint64_t tiles, uint64_t seed) {
  TensorEntry entry;
  entry.name = std::move(name);
  entry.dtype = DType::kF32;
  entry.shape = {tiles};
  entry.tile_shape = {1};
  for (uint64_t i = 0; i < tiles; ++i) {
    entry.tiles.push_back(WholeTile(FakeRef(seed * 1'000'000 + i, 4)));
  }
  return entry;
}

inline Manifest RandomManifest(Random& random, size_t tensors) {
  Manifest manifest;
  std::map<std::string, TensorEntry> by_name;
  while (by_name.size() < tensors) {
    std::string name = fmt::format("layer.{}/weight\n\xc3\xa9", random.Below(1000));
    uint64_t tiles = random.Below(20) == 0 ? 240 + random.Below(300) : random.Below(5);
    TensorEntry entry = FakeTensor(name, tiles, 1 + random.Below(1000));
    if (tiles == 0) entry.tile_shape = {1};
    for (TileRef& tile : entry.tiles) {
      if (random.Below(4) == 0) {
        tile = FakePart(FakeRef(random.Below(5), 1000), random.Below(997), 4);
      } else if (random.Below(4) == 0) {
        tile = FakeXor(tile.object, FakeRef(random.Below(100) + 5000, 4),
                       FakeRef(random.Below(100) + 6000, 4));
      }
    }
    by_name[name] = std::move(entry);
  }
  std::string target = by_name.empty() ? "" : by_name.begin()->first;
  if (!by_name.empty() && random.Below(2) == 0) {
    by_name["zz.alias"] = TensorEntry{.name = "zz.alias", .alias_of = target};
  }
  for (auto& [name, entry] : by_name) manifest.tensors.push_back(std::move(entry));
  for (uint64_t i = random.Below(4); i > 0; --i) {
    manifest.metadata[fmt::format("key {}", i)] =
        std::string(random.Below(10) == 0 ? 20'000 : random.Below(30), 'v');
  }
  if (random.Below(2) == 0) {
    manifest.side_files.push_back({"config.json", {FakeRef(7000, 12), 12}});
    manifest.side_files.push_back({"sub/tokenizer.json", {FakeRef(7001, 99, 1), 1 << 30}});
  }
  return manifest;
}

using ObjectMap = std::map<ObjectId, std::string>;

inline ObjectMap MapOf(const std::vector<EncodedObject>& objects) {
  ObjectMap map;
  for (const EncodedObject& object : objects) map[object.ref.id] = object.content;
  return map;
}

// What a reader does, all tile lists included.
inline absl::StatusOr<Manifest> ReadBack(const ObjectMap& objects, const ObjectId& root_id) {
  TILEKV_ASSIGN_OR_RETURN(ManifestRoot root, DecodeManifestRoot(AsBytes(objects.at(root_id))));
  std::vector<std::vector<TensorEntry>> pages;
  for (const ManifestPageRef& page : root.pages) {
    TILEKV_ASSIGN_OR_RETURN(std::vector<TensorEntry> entries,
                            DecodeManifestPage(AsBytes(objects.at(page.ref.id))));
    for (TensorEntry& entry : entries) {
      if (!entry.is_listed()) continue;
      std::vector<TileList> lists;
      for (const ObjectRef& list : entry.tile_lists) {
        TILEKV_ASSIGN_OR_RETURN(TileList decoded, DecodeTileList(AsBytes(objects.at(list.id))));
        lists.push_back(std::move(decoded));
      }
      TILEKV_RETURN_IF_ERROR(JoinTileLists(std::move(lists), entry));
    }
    pages.push_back(std::move(entries));
  }
  std::optional<std::map<std::string, std::string>> metadata;
  if (root.metadata_content.has_value()) {
    TILEKV_ASSIGN_OR_RETURN(metadata,
                            DecodeMetadata(AsBytes(objects.at(root.metadata_content->ref.id))));
  }
  return AssembleManifest(std::move(root), std::move(pages), std::move(metadata));
}

}  // namespace tilekv
