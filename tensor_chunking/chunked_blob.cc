#include "tensor_chunking/chunked_blob.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

constexpr uint64_t kLengthBytes = 8;

absl::Status Damaged(std::string text) {
  return MakeError(Reason::kDataLoss, "chunked blob: " + text);
}

// How many children a tree of this level can have.
uint64_t GreatestFanOut(uint8_t level, uint64_t max_object_bytes) {
  uint64_t fixed = TreeBytes(0, kLengthBytes);
  uint64_t each = kTreeChildBytes + (level == 2 ? kLengthBytes : 0);
  if (max_object_bytes < fixed + each) return 0;
  return std::min<uint64_t>(kMaxChildren, (max_object_bytes - fixed) / each);
}

EncodedObject EncodeLeafNode(std::span<const ObjectRef> pieces, uint64_t& length) {
  Tree tree{1, TreeType::kChunkedBlob, {pieces.begin(), pieces.end()}, {}};
  length = 0;
  for (const ObjectRef& piece : pieces) length += piece.length;
  AppendLe<uint64_t>(tree.opaque, length);
  return EncodeTreeObject(tree);
}

}  // namespace

EncodedObject EncodeTreeObject(const Tree& tree) {
  EncodedObject object;
  object.content = EncodeTree(tree);
  object.ref = RefOf(tree.level, AsBytes(object.content));
  return object;
}

EncodedObject EncodeBlobObject(std::string content) {
  ObjectRef ref = RefOf(0, AsBytes(content));
  return {ref, std::move(content)};
}

absl::Status CheckStoredContent(const StoredContent& content, Reason reason) {
  if (content.ref.level == 0 ? content.ref.length == content.length_bytes
                             : content.ref.level <= 2) {
    return absl::OkStatus();
  }
  return MakeError(reason,
                   fmt::format("a content of {} bytes is an object of level {} and {} bytes",
                               content.length_bytes, content.ref.level, content.ref.length));
}

uint64_t ChunkBytes(uint64_t max_object_bytes) { return std::min(kChunkBytes, max_object_bytes); }

absl::StatusOr<std::vector<EncodedObject>> EncodeChunkedBlob(std::span<const ObjectRef> pieces,
                                                             uint64_t max_object_bytes) {
  const uint64_t fan_out = GreatestFanOut(1, max_object_bytes);
  std::vector<EncodedObject> out;
  uint64_t length = 0;
  if (pieces.size() <= fan_out) {
    out.push_back(EncodeLeafNode(pieces, length));
    return out;
  }
  const uint64_t nodes = fan_out == 0 ? ~uint64_t{0} : CeilDiv(pieces.size(), fan_out);
  if (nodes > GreatestFanOut(2, max_object_bytes)) {
    return MakeError(Reason::kObjectTooLarge,
                     fmt::format("{} pieces are more than a chunked blob can have in this store, "
                                 "which takes objects up to {} bytes ({}); use a larger object "
                                 "limit",
                                 FormatCount(pieces.size()), FormatCount(max_object_bytes),
                                 FormatSizeShort(max_object_bytes)));
  }
  Tree top{2, TreeType::kChunkedBlob, {}, {}};
  std::string lengths;
  uint64_t total = 0;
  for (uint64_t at = 0; at < pieces.size(); at += fan_out) {
    uint64_t count = std::min<uint64_t>(fan_out, pieces.size() - at);
    out.push_back(EncodeLeafNode(pieces.subspan(at, count), length));
    top.children.push_back(out.back().ref);
    AppendLe<uint64_t>(lengths, length);
    total += length;
  }
  AppendLe<uint64_t>(top.opaque, total);
  top.opaque += lengths;
  out.push_back(EncodeTreeObject(top));
  return out;
}

absl::StatusOr<StoredContent> EncodeInMemory(std::string_view content, uint64_t max_object_bytes,
                                             std::vector<EncodedObject>& out) {
  if (content.size() <= max_object_bytes) {
    out.push_back(EncodeBlobObject(std::string(content)));
    return StoredContent{out.back().ref, content.size()};
  }
  const uint64_t piece_bytes = ChunkBytes(max_object_bytes);
  std::vector<ObjectRef> pieces;
  for (uint64_t at = 0; at < content.size(); at += piece_bytes) {
    out.push_back(EncodeBlobObject(std::string(content.substr(at, piece_bytes))));
    pieces.push_back(out.back().ref);
  }
  TILEKV_ASSIGN_OR_RETURN(std::vector<EncodedObject> trees,
                          EncodeChunkedBlob(pieces, max_object_bytes));
  for (EncodedObject& tree : trees) out.push_back(std::move(tree));
  return StoredContent{out.back().ref, content.size()};
}

absl::StatusOr<ChunkedBlobNode> DecodeChunkedBlob(uint8_t level, Bytes content) {
  absl::StatusOr<Tree> tree = DecodeTree(level, content);
  if (!tree.ok()) return Damaged(ErrorText(tree.status()));
  if (tree->type != TreeType::kChunkedBlob || level > 2) {
    return Damaged(
        fmt::format("a tree of type {} and level {} is none", static_cast<int>(tree->type), level));
  }
  const uint64_t expected = kLengthBytes * (level == 2 ? 1 + tree->children.size() : 1);
  if (tree->opaque.size() != expected) {
    return Damaged(fmt::format("{} opaque bytes instead of {}", tree->opaque.size(), expected));
  }
  ByteReader in(AsBytes(tree->opaque));
  ChunkedBlobNode node;
  node.length_bytes = in.Read<uint64_t>();
  uint64_t sum = 0;
  for (size_t i = 0; i < tree->children.size(); ++i) {
    const ObjectRef& child = tree->children[i];
    if (child.level != level - 1) {
      return Damaged(fmt::format("child {} has level {} instead of {}", i, child.level, level - 1));
    }
    uint64_t length = level == 2 ? in.Read<uint64_t>() : child.length;
    if (!CheckedAdd(sum, length, sum)) return Damaged("its children's lengths overflow");
    node.child_lengths.push_back(length);
  }
  if (sum != node.length_bytes) {
    return Damaged(fmt::format("it is {} bytes long, its children {}", node.length_bytes, sum));
  }
  node.children = std::move(tree->children);
  return node;
}

}  // namespace tilekv
