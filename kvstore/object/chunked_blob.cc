#include "kvstore/object/chunked_blob.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

Tree MakeTree(uint8_t level, std::span<const ObjectRef> children, uint64_t length) {
  Tree tree;
  tree.level = level;
  tree.type = TreeType::kChunkedBlob;
  tree.children.assign(children.begin(), children.end());
  AppendLe<uint64_t>(tree.opaque, length);
  return tree;
}

}  // namespace

uint64_t ChunkBytes(uint64_t max_object_bytes) { return std::min(kChunkBytes, max_object_bytes); }

uint64_t MaxChunkedChildren(uint64_t max_object_bytes) {
  return std::min<uint64_t>(kMaxChildren,
                            (max_object_bytes - TreeBytes(0, sizeof(uint64_t))) / kTreeChildBytes);
}

ChunkedTrees GroupChunks(std::span<const ObjectRef> pieces, uint64_t max_object_bytes) {
  uint64_t most = MaxChunkedChildren(max_object_bytes);
  ChunkedTrees trees;
  do {
    auto some = pieces.first(std::min<uint64_t>(pieces.size(), most));
    pieces = pieces.subspan(some.size());
    uint64_t length = 0;
    for (const ObjectRef& piece : some) length += piece.length;
    trees.leaves.push_back(MakeTree(1, some, length));
  } while (!pieces.empty());
  trees.two_levels = trees.leaves.size() > 1;
  return trees;
}

absl::StatusOr<Tree> ChunkedRoot(std::span<const ObjectRef> leaves, uint64_t length,
                                 uint64_t max_object_bytes) {
  if (leaves.size() > MaxChunkedChildren(max_object_bytes)) {
    return MakeError(
        Reason::kObjectTooLarge,
        fmt::format("a value of {} bytes ({}) is more than two levels of chunks hold in "
                    "a store that takes objects up to {}",
                    FormatCount(length), FormatSize(length), FormatSizeShort(max_object_bytes)));
  }
  return MakeTree(2, leaves, length);
}

absl::StatusOr<ChunkedBlob> ParseChunkedBlob(const Tree& tree) {
  if (tree.type != TreeType::kChunkedBlob || tree.level > 2 ||
      tree.opaque.size() != sizeof(uint64_t)) {
    return MakeError(Reason::kInvalidArgument, "the tree is not a chunked blob");
  }
  ChunkedBlob blob;
  blob.length = LoadLe<uint64_t>(AsBytes(tree.opaque).data());
  blob.children = tree.children;
  uint64_t total = 0;
  for (const ObjectRef& child : tree.children) {
    if (child.level != tree.level - 1) {
      return MakeError(Reason::kInvalidArgument, "a chunked blob has children of two levels");
    }
    total += child.length;
  }
  // Lengths of level 1 trees are their own, not their content's.
  if (tree.level == 1 && total != blob.length) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("the pieces of a chunked blob have {} bytes, not {}", total, blob.length));
  }
  return blob;
}

}  // namespace tilekv
