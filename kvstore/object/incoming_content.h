// What every engine checks of content that is being put, whatever it does with the bytes: limit,
// declared length, coding, id, and that a tree is one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/object/object_store.h"
#include "kvstore/object/tree.h"

namespace tilekv {

// Refuses a put that can never be right: level, encoding, contradictory lengths, a coded put whose
// length is not declared, and OBJECT_TOO_LARGE where the declared length is above the limit.
absl::Status CheckPutSpec(const PutSpec& spec, uint64_t max_object_bytes);
// The declared length, by `expected` or by `length`.
std::optional<uint64_t> DeclaredLength(const PutSpec& spec);

// Sees the bytes of one put as they pass. Memory: a block where the content is coded, 36 bytes for
// each leaf. For one thread.
class IncomingContent {
 public:
  // `spec` has passed CheckPutSpec.
  IncomingContent(const PutSpec& spec, uint64_t max_object_bytes, std::shared_ptr<BufferPool> pool);

  // Checks limits before anything else, then hashes. Bytes for which this fails are not stored.
  absl::Status Append(Bytes stored, std::span<const uint32_t> table);
  // The content's name, once all bytes were seen: DATA_LOSS when it is not the expected one,
  // INVALID_ARGUMENT where the content is shorter than declared or no tree. Call once.
  absl::StatusOr<ObjectRef> Finish();

  uint64_t content_length() const { return hasher_.length(); }
  uint64_t stored_length() const { return stored_length_; }
  // After Finish.
  const LeafTable& leaves() const { return leaves_; }
  const std::vector<uint32_t>& block_table() const { return block_table_; }

 private:
  absl::Status AppendContent(Bytes content);
  absl::Status AppendBlock(Bytes stored, uint32_t entry);

  const PutSpec spec_;
  const uint64_t max_object_bytes_;
  const std::optional<uint64_t> declared_length_;
  const std::shared_ptr<BufferPool> pool_;
  std::unique_ptr<BlockCodec> codec_;
  Buffer block_;
  LeafHasher hasher_;
  uint64_t stored_length_ = 0;
  std::optional<TreeCheck> tree_;
  std::vector<uint32_t> block_table_;
  LeafTable leaves_;
};

}  // namespace tilekv
