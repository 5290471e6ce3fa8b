// Pieces that the trees of manifests and of source files share: the head of the opaque part,
// numbered children, tile references, contents. Private to this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/object/object_id.h"
#include "kvstore/object/tree.h"
#include "tensor_chunking/manifest.h"

namespace tilekv {

inline constexpr uint16_t kManifestVersion = 1;
inline constexpr uint64_t kOpaqueHeadBytes = 4;
inline constexpr uint64_t kWholeTileBytes = 1 + 4;  // the least
inline constexpr uint64_t kXorTileBytes = 1 + 4 + 4 + 32;
inline constexpr uint64_t kPartTileBytes = 1 + 4 + 8 + 8 + 16;
// A tile reference with rows for its children, at most.
inline constexpr uint64_t kGreatestTileBytes = kXorTileBytes + 2 * kTreeChildBytes;

void AppendOpaqueHead(std::string& out);

struct ObjectRefHash {
  size_t operator()(const ObjectRef& ref) const { return ObjectIdHash()(ref.id); }
};

// The children of a tree that is being written, numbered in the order of their first use.
class ChildTable {
 public:
  uint32_t Number(const ObjectRef& ref);
  bool Has(const ObjectRef& ref) const { return numbers_.contains(ref); }
  size_t size() const { return refs_.size(); }
  std::vector<ObjectRef> Take() {
    numbers_.clear();
    return std::move(refs_);
  }

 private:
  std::unordered_map<ObjectRef, uint32_t, ObjectRefHash> numbers_;
  std::vector<ObjectRef> refs_;
};

uint64_t TileRefBytes(const TileRef& tile);
void AppendTileRef(const TileRef& tile, ChildTable& children, std::string& out);
void AppendContent(const StoredContent& content, ChildTable& children, std::string& out);

// Reads the opaque part of a tree. After a fault every read gives nothing and `status()` is the
// first fault, a DATA_LOSS beginning with what is being read.
class OpaqueReader {
 public:
  // `what` outlives the reader. The tree must be of this type and level.
  static absl::StatusOr<OpaqueReader> Open(const char* what, TreeType type, uint8_t level,
                                           Bytes content);
  OpaqueReader(OpaqueReader&&) = default;

  template <typename T>
  T Read() {
    return status_.ok() ? in_.Read<T>() : T{};
  }
  std::string_view TakeText();
  // A count of things that take at least `least_bytes` each, so that there is room for them.
  uint32_t ReadCount(uint64_t least_bytes);
  // A child by number; numbers come in the order of their first use.
  ObjectRef ReadChild();
  TileRef ReadTileRef();
  StoredContent ReadStoredContent();
  uint64_t remaining() const { return in_.rest().size(); }

  void Fail(std::string why);
  // What was being read, for faults that come later; kept by the reader.
  void SetContext(std::string context) { context_ = std::move(context); }
  // Ok so far.
  absl::Status status();
  // Ok, and nothing is left over: neither bytes nor children.
  absl::Status Finish();

 private:
  OpaqueReader(const char* what, Tree tree);
  TileRef ReadXorTile();
  TileRef ReadPartTile();
  void ReadBytes(MutableBytes out);

  const char* what_;
  std::unique_ptr<Tree> tree_;  // in_ points into it
  ByteReader in_;
  size_t children_used_ = 0;
  std::string context_;
  absl::Status status_;
};

}  // namespace tilekv
