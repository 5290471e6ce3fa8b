// Hashing content to its id: BLAKE3 over level, length and the BLAKE3 hashes of 64 KiB leaves
// (docs/formats.md).
//
// The table of leaves verifies whole reads and range reads alike: check the table against the id
// once, then any leaf against its row. Functions are pure and thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

using LeafHash = std::array<uint8_t, 32>;
// One entry for each kLeafBytes of content, the last possibly shorter; empty for empty content.
using LeafTable = std::vector<LeafHash>;

constexpr uint64_t LeafCount(uint64_t length) { return CeilDiv(length, kLeafBytes); }
// Bytes of leaf `index` of content of this length.
constexpr uint64_t LeafLength(uint64_t length, uint64_t index) {
  uint64_t start = index * kLeafBytes;
  return length - start < kLeafBytes ? length - start : kLeafBytes;
}

// BLAKE3-256 of any bytes; `leaf` is at most kLeafBytes.
LeafHash HashLeaf(Bytes leaf);
// Plain BLAKE3-256, for names whose hash decides a boundary.
LeafHash Blake3(Bytes bytes);
// Leaves of contiguous content that starts on a leaf boundary, appended to `table`.
void HashLeaves(Bytes content, LeafTable& table);
ObjectId IdFromLeaves(uint8_t level, uint64_t length, std::span<const LeafHash> leaves);
ObjectId IdOf(uint8_t level, Bytes content);
ObjectRef RefOf(uint8_t level, Bytes content);

// Leaves of content that arrives in pieces of any size. Full leaves inside a piece are hashed where
// they lie.
class LeafHasher {
 public:
  LeafHasher();
  ~LeafHasher();
  LeafHasher(LeafHasher&&) noexcept;
  LeafHasher& operator=(LeafHasher&&) noexcept;

  void Update(Bytes piece);
  uint64_t length() const { return length_; }
  // The table, the last partial leaf included. Call once, at the end.
  LeafTable Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;  // of the leaf that is not full yet
  uint64_t length_ = 0;
  LeafTable table_;
};

}  // namespace tilekv
