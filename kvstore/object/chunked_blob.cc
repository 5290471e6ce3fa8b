#include "kvstore/object/chunked_blob.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {

uint64_t ValueChunkBytes(uint64_t max_object_bytes) {
  return std::min(kChunkBytes, max_object_bytes);
}

uint64_t MaxValueChunks(uint8_t level, uint64_t max_object_bytes) {
  uint64_t bytes_each = kTreeChildBytes + (level == 1 ? 0 : sizeof(uint64_t));
  uint64_t room = max_object_bytes - TreeBytes(0, sizeof(uint64_t));
  return std::min<uint64_t>(kMaxChildren, room / bytes_each);
}

Tree EncodeValueChunks(uint8_t level, std::span<const ValueChunk> chunks) {
  TILEKV_CHECK(level == 1 || level == 2);
  TILEKV_CHECK(chunks.size() <= kMaxChildren);
  Tree tree;
  tree.level = level;
  tree.type = TreeType::kChunkedBlob;
  uint64_t total = 0;
  for (const ValueChunk& chunk : chunks) {
    TILEKV_CHECK(chunk.ref.level == level - 1);
    tree.children.push_back(chunk.ref);
    total += chunk.content_bytes;
  }
  AppendLe<uint64_t>(tree.opaque, total);
  if (level == 1) return tree;
  for (const ValueChunk& chunk : chunks) AppendLe<uint64_t>(tree.opaque, chunk.content_bytes);
  return tree;
}

absl::StatusOr<ValueChunks> DecodeValueChunks(const Tree& tree) {
  uint64_t lengths = tree.level == 1 ? 0 : tree.children.size();
  if (tree.type != TreeType::kChunkedBlob || tree.level > 2 ||
      tree.opaque.size() != (1 + lengths) * sizeof(uint64_t)) {
    return MakeError(Reason::kInvalidArgument, "the tree is not a chunked blob");
  }
  ByteReader reader(AsBytes(tree.opaque));
  ValueChunks value;
  value.content_bytes = reader.Read<uint64_t>();
  uint64_t total = 0;
  for (const ObjectRef& child : tree.children) {
    if (child.level != tree.level - 1) {
      return MakeError(Reason::kInvalidArgument, "a chunked blob has children of another level");
    }
    uint64_t length = tree.level == 1 ? child.length : reader.Read<uint64_t>();
    if (!CheckedAdd(total, length, total)) total = ~uint64_t{0};
    value.chunks.push_back({child, length});
  }
  if (total == value.content_bytes) return value;
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("the pieces of a chunked blob have {} bytes, not {}", total,
                               value.content_bytes));
}

}  // namespace tilekv
