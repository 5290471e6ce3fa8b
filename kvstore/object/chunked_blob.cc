#include "kvstore/object/chunked_blob.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

constexpr uint64_t kLengthBytes = sizeof(uint64_t);
constexpr uint8_t kTopLevel = 2;

absl::Status Wrong(Reason reason, std::string_view why) {
  return MakeError(reason, fmt::format("chunked blob: {}", why));
}

}  // namespace

uint64_t ChunkBytes(uint64_t max_object_bytes) { return std::min(kChunkBytes, max_object_bytes); }

uint64_t MaxChunks(uint8_t level, uint64_t max_object_bytes) {
  uint64_t bytes_each = kTreeChildBytes + (level == 1 ? 0 : kLengthBytes);
  uint64_t room = max_object_bytes - TreeBytes(0, kLengthBytes);
  return std::min<uint64_t>(kMaxChildren, room / bytes_each);
}

Tree EncodeChunkedBlob(uint8_t level, std::span<const BlobChunk> chunks) {
  TILEKV_CHECK(level == 1 || level == kTopLevel);
  TILEKV_CHECK(chunks.size() <= kMaxChildren);
  Tree tree{level, TreeType::kChunkedBlob, {}, {}};
  uint64_t total = 0;
  for (const BlobChunk& chunk : chunks) {
    TILEKV_CHECK(chunk.ref.level == level - 1);
    tree.children.push_back(chunk.ref);
    total += chunk.content_bytes;
  }
  AppendLe<uint64_t>(tree.opaque, total);
  if (level == 1) return tree;
  for (const BlobChunk& chunk : chunks) AppendLe<uint64_t>(tree.opaque, chunk.content_bytes);
  return tree;
}

absl::StatusOr<ChunkedBlob> DecodeChunkedBlob(const Tree& tree, Reason reason) {
  if (tree.type != TreeType::kChunkedBlob || tree.level > kTopLevel) {
    return Wrong(reason, fmt::format("a tree of type {} and level {} is none",
                                     static_cast<int>(tree.type), tree.level));
  }
  const uint64_t expected = kLengthBytes * (tree.level == 1 ? 1 : 1 + tree.children.size());
  if (tree.opaque.size() != expected) {
    return Wrong(reason, fmt::format("{} opaque bytes, not {}", tree.opaque.size(), expected));
  }
  ByteReader in(AsBytes(tree.opaque));
  ChunkedBlob blob;
  blob.content_bytes = in.Read<uint64_t>();
  uint64_t sum = 0;
  for (const ObjectRef& child : tree.children) {
    if (child.level != tree.level - 1) {
      return Wrong(reason,
                   fmt::format("a child of level {} below level {}", child.level, tree.level));
    }
    uint64_t length = tree.level == 1 ? child.length : in.Read<uint64_t>();
    if (!CheckedAdd(sum, length, sum)) return Wrong(reason, "its chunks are 2^64 bytes or more");
    blob.chunks.push_back({child, length});
  }
  if (sum == blob.content_bytes) return blob;
  return Wrong(reason, fmt::format("its chunks have {} bytes, not the {} that it says", sum,
                                   blob.content_bytes));
}

absl::StatusOr<ChunkedBlob> DecodeChunkedBlob(uint8_t level, Bytes content, Reason reason) {
  absl::StatusOr<Tree> tree = DecodeTree(level, content);
  if (!tree.ok()) return Wrong(reason, ErrorText(tree.status()));
  return DecodeChunkedBlob(*tree, reason);
}

ChunkedBlobBuilder::ChunkedBlobBuilder(uint64_t max_object_bytes, PutTree put_tree)
    : max_object_bytes_(max_object_bytes), put_tree_(std::move(put_tree)) {}

absl::Status ChunkedBlobBuilder::Add(const ObjectRef& piece) {
  if (pieces_.size() == MaxChunks(1, max_object_bytes_)) TILEKV_RETURN_IF_ERROR(CloseTree());
  pieces_.push_back({piece, piece.length});
  return absl::OkStatus();
}

absl::StatusOr<BlobChunk> ChunkedBlobBuilder::Finish() {
  if (trees_.empty() || !pieces_.empty()) TILEKV_RETURN_IF_ERROR(CloseTree());
  return trees_.size() == 1 ? trees_[0] : Put(2, trees_);
}

absl::StatusOr<BlobChunk> ChunkedBlobBuilder::Put(uint8_t level,
                                                  std::span<const BlobChunk> chunks) {
  std::string content = EncodeTree(EncodeChunkedBlob(level, chunks));
  BlobChunk tree{RefOf(level, AsBytes(content)), 0};
  for (const BlobChunk& chunk : chunks) tree.content_bytes += chunk.content_bytes;
  TILEKV_RETURN_IF_ERROR(put_tree_(tree.ref, std::move(content)));
  return tree;
}

absl::Status ChunkedBlobBuilder::CloseTree() {
  if (trees_.size() == MaxChunks(2, max_object_bytes_)) {
    return MakeError(
        Reason::kObjectTooLarge,
        fmt::format("the content has more pieces than two levels of trees hold in a "
                    "store that takes objects up to {} bytes ({}); use a larger "
                    "object limit",
                    FormatCount(max_object_bytes_), FormatSizeShort(max_object_bytes_)));
  }
  TILEKV_ASSIGN_OR_RETURN(BlobChunk tree, Put(1, pieces_));
  trees_.push_back(tree);
  pieces_.clear();
  return absl::OkStatus();
}

}  // namespace tilekv
