// What a version of a model consists of, in memory: tensors with their tiles, aliases, side files.
// Plain data, made of references to objects; manifest_codec.h turns it into objects and back.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/object/object_id.h"
#include "tensor_chunking/dtype.h"
#include "tensor_chunking/shape.h"
#include "tensor_chunking/stored_content.h"
#include "tensor_chunking/tile_grid.h"

namespace tilekv {

// The two stored blobs whose XOR is a third one.
struct XorParts {
  ObjectRef base;
  ObjectRef delta;

  friend bool operator==(const XorParts&, const XorParts&) = default;
};

// The first bytes of the id that a part of a blob would have as a blob of its own.
using PartHash = std::array<uint8_t, 16>;
PartHash HashPart(Bytes content);

// Where one tile's content is: bytes [offset, offset + length) of `object`, a blob. Either the
// whole of it or a part, as of a pack.
struct TileRef {
  ObjectRef object;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  // Of a part, the hash of its content, whatever else is in the blob; zeros for a whole.
  PartHash part_hash{};
  // Set: `object` itself need not be stored; it is the XOR of these, and its id verifies the
  // result. Such a tile is a whole object.
  std::shared_ptr<const XorParts> parts;

  bool is_part() const { return offset_bytes != 0 || length_bytes != object.length; }
  // Whether the tiles' bytes are equal, wherever they are stored: told by their hashes.
  bool SameContent(const TileRef& other) const;

  friend bool operator==(const TileRef& a, const TileRef& b) {
    if ((a.parts == nullptr) != (b.parts == nullptr)) return false;
    if (a.parts != nullptr && !(*a.parts == *b.parts)) return false;
    return a.object == b.object && a.offset_bytes == b.offset_bytes &&
           a.length_bytes == b.length_bytes && a.part_hash == b.part_hash;
  }
};

// The tile that is a blob.
TileRef WholeTile(const ObjectRef& blob);
// The tile at this place of a blob, which has this content.
TileRef TileWithin(const ObjectRef& blob, Bytes blob_content, uint64_t offset_bytes,
                   uint64_t length_bytes);

struct TensorEntry {
  std::string name;
  std::optional<std::string> alias_of;  // set: the name of a tensor; all below is then empty
  DType dtype = DType::kU8;
  Shape shape;
  Shape tile_shape;
  std::vector<TileRef> tiles;  // in the order of the grid
  // A tensor of very many tiles as it was read, before its tile lists are: `tiles` is then empty,
  // and list i holds tiles from i * tiles_per_list.
  uint64_t tiles_per_list = 0;
  std::vector<ObjectRef> tile_lists;

  bool is_alias() const { return alias_of.has_value(); }
  // Whether the tiles are in tile lists that have not been read.
  bool is_listed() const { return !tile_lists.empty(); }
  // Of a tensor that passed CheckTensor.
  TileGrid grid() const;
  uint64_t bytes() const;  // 0 for an alias

  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

struct SideFile {
  std::string path;  // relative, see relative_path.h
  StoredContent content;

  friend bool operator==(const SideFile&, const SideFile&) = default;
};

struct Manifest {
  std::map<std::string, std::string> metadata;  // of the model, as safetensors' __metadata__
  std::vector<TensorEntry> tensors;             // ascending by name, bytewise
  std::vector<SideFile> side_files;             // ascending by path, bytewise

  // The entry of this name, or null.
  const TensorEntry* Find(std::string_view name) const;
  // The same, an alias followed.
  const TensorEntry* FindTensor(std::string_view name) const;
  // Sizes of all tensors, aliases not counted.
  uint64_t logical_bytes() const;
  // About what it takes of this process's memory.
  uint64_t memory_bytes() const;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Errors below carry `reason` and name the tensor.

// UTF-8 without NUL, at most kMaxTensorNameBytes.
absl::Status CheckTensorName(std::string_view name, Reason reason);
// A tensor by itself: name, shape, tile shape, and every tile of the length that the grid gives it,
// within its object, hashed where it is a part. Listed tiles are taken on trust until they are
// read.
absl::Status CheckTensor(const TensorEntry& entry, Reason reason);
// What is wrong with a tile that should have this length; empty: nothing.
std::string TileFault(const TileRef& tile, uint64_t expected_bytes);
// All tensors, their order, what aliases name; side files, their order and paths.
absl::Status CheckManifest(const Manifest& manifest, Reason reason);

}  // namespace tilekv
