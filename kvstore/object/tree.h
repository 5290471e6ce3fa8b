// Trees: objects that begin with a table of child references which the store can parse; the rest is
// opaque to it. From a name the store walks trees to everything that the name needs, without
// knowing tensors. Layout: docs/formats.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

// Who reads the opaque part. The store itself does not look at it.
enum class TreeType : uint8_t {
  kChunkedBlob = 1,   // children in order are the content
  kTileList = 2,      // tiles of one large tensor
  kManifestPage = 3,  // tensor entries
  kManifestRoot = 4,  // a model: pages, side files
  kCommit = 5,        // one version: root (first child), optional source files (second)
  kSourceFiles = 6,   // headers and names of the files that a model came from
};

inline constexpr uint16_t kTreeVersion = 1;
inline constexpr uint64_t kTreeHeaderBytes = 20;
inline constexpr uint64_t kTreeChildBytes = 48;

struct Tree {
  uint8_t level = 1;  // above every child's
  TreeType type = TreeType::kChunkedBlob;
  std::vector<ObjectRef> children;
  std::string opaque;
};

// Bytes that a tree with so many children and so long an opaque part takes.
constexpr uint64_t TreeBytes(uint64_t children, uint64_t opaque_bytes) {
  return kTreeHeaderBytes + children * kTreeChildBytes + opaque_bytes;
}

// The content of the tree. Level, order of levels and count of children are the caller's to get
// right (checked).
std::string EncodeTree(const Tree& tree);
// Everything that can be checked on the tree alone: magic, version, level 1 to kMaxLevel, at most
// kMaxChildren, children of lower levels, padding zero, exact total length. `level` is what the
// object's id says. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<Tree> DecodeTree(uint8_t level, Bytes content);
// The children, by the same checks, of a tree of `total_bytes` of which `head` holds at least
// header and children: the opaque part need not be in memory.
absl::StatusOr<std::vector<ObjectRef>> DecodeTreeHead(uint8_t level, Bytes head,
                                                      uint64_t total_bytes);
// Of a tree that begins with these bytes: how many header and children take, kMaxChildren at most.
uint64_t TreeHeadBytes(Bytes beginning);
// The children only, without copying the opaque part. The same checks.
absl::StatusOr<std::vector<ObjectRef>> DecodeTreeChildren(uint8_t level, Bytes content);

struct TreeHeader {
  uint16_t version = 0;
  uint8_t level = 0;
  uint8_t type = 0;
  uint32_t children = 0;
  uint64_t opaque_length = 0;
};

// The same checks on a tree whose bytes pass in pieces of any size. Memory: one child's reference.
class TreeCheck {
 public:
  explicit TreeCheck(uint8_t level) : level_(level) {}
  void Add(Bytes piece);
  // Once all bytes have passed, `total_bytes` of them.
  absl::Status Finish(uint64_t total_bytes) const;

 private:
  void TakeEntry();

  const uint8_t level_;
  absl::Status status_;  // of what has passed
  std::string entry_;    // the beginning of the header, or of a child's reference
  std::optional<TreeHeader> header_;
  uint32_t children_ = 0;  // that have passed
};

}  // namespace tilekv
