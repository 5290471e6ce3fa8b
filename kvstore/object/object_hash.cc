#include "kvstore/object/object_hash.h"

#include <algorithm>

#include "blake3.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<ObjectId> ObjectId::FromBytes(std::string_view raw) {
  ObjectId id;
  if (raw.size() != id.bytes.size()) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("an object id has {} bytes, not {}", id.bytes.size(), raw.size()));
  }
  std::memcpy(id.bytes.data(), raw.data(), raw.size());
  return id;
}

absl::StatusOr<ObjectId> ObjectId::FromHex(std::string_view hex) {
  std::string raw;
  if (!HexDecode(hex, raw)) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("'{}' is not an object id of 64 hexadecimal digits", Printable(hex)));
  }
  return FromBytes(raw);
}

LeafHash Blake3(Bytes bytes) {
  blake3_hasher hasher;
  blake3_hasher_init(&hasher);
  blake3_hasher_update(&hasher, bytes.data(), bytes.size());
  LeafHash out;
  blake3_hasher_finalize(&hasher, out.data(), out.size());
  return out;
}

LeafHash HashLeaf(Bytes leaf) { return Blake3(leaf); }

void HashLeaves(Bytes content, LeafTable& table) {
  for (uint64_t at = 0; at < content.size(); at += kLeafBytes) {
    table.push_back(
        HashLeaf(content.subspan(at, std::min<uint64_t>(kLeafBytes, content.size() - at))));
  }
}

ObjectId IdFromLeaves(uint8_t level, uint64_t length, std::span<const LeafHash> leaves) {
  uint8_t head[16] = {'T', 'K', 'V', '1', level, 0, 0, 0};
  StoreLe<uint64_t>(head + 8, length);
  blake3_hasher hasher;
  blake3_hasher_init(&hasher);
  blake3_hasher_update(&hasher, head, sizeof head);
  blake3_hasher_update(&hasher, leaves.data(), leaves.size_bytes());
  ObjectId id;
  blake3_hasher_finalize(&hasher, id.bytes.data(), id.bytes.size());
  return id;
}

ObjectId IdOf(uint8_t level, Bytes content) {
  LeafTable leaves;
  HashLeaves(content, leaves);
  return IdFromLeaves(level, content.size(), leaves);
}

ObjectRef RefOf(uint8_t level, Bytes content) {
  return {.id = IdOf(level, content), .level = level, .length = content.size()};
}

struct LeafHasher::State {
  blake3_hasher hasher;
};

LeafHasher::LeafHasher() : state_(std::make_unique<State>()) {}
LeafHasher::~LeafHasher() = default;
LeafHasher::LeafHasher(LeafHasher&&) noexcept = default;
LeafHasher& LeafHasher::operator=(LeafHasher&&) noexcept = default;

void LeafHasher::Update(Bytes piece) {
  while (!piece.empty()) {
    uint64_t filled = length_ % kLeafBytes;
    if (filled == 0 && piece.size() >= kLeafBytes) {
      uint64_t whole = piece.size() / kLeafBytes * kLeafBytes;
      HashLeaves(piece.first(whole), table_);
      length_ += whole;
      piece = piece.subspan(whole);
      continue;
    }
    uint64_t take = std::min<uint64_t>(piece.size(), kLeafBytes - filled);
    if (filled == 0) blake3_hasher_init(&state_->hasher);
    blake3_hasher_update(&state_->hasher, piece.data(), take);
    length_ += take;
    piece = piece.subspan(take);
    if (length_ % kLeafBytes == 0) {
      LeafHash& leaf = table_.emplace_back();
      blake3_hasher_finalize(&state_->hasher, leaf.data(), leaf.size());
    }
  }
}

LeafTable LeafHasher::Finish() {
  if (length_ % kLeafBytes != 0) {
    LeafHash& leaf = table_.emplace_back();
    blake3_hasher_finalize(&state_->hasher, leaf.data(), leaf.size());
  }
  return std::move(table_);
}

}  // namespace tilekv
