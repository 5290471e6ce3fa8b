// Reading content out of stored blocks, verified: the one place where bytes become trusted, for
// local and remote reads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/stream.h"
#include "kvstore/object/object_store.h"
#include "kvstore/object/read_times.h"

namespace tilekv {

// DATA_LOSS naming the object when the table is not the one that `ref` was hashed from.
absl::Status VerifyLeafTable(const ObjectRef& ref, std::span<const LeafHash> leaves);
// Checks content that starts at leaf `first_leaf` and ends on a leaf's end. DATA_LOSS names object
// and leaf.
absl::Status VerifyLeaves(const ObjectRef& ref, std::span<const LeafHash> leaves,
                          uint64_t first_leaf, Bytes content);

// INVALID_ARGUMENT for a table entry that no block of this many bytes of content can have.
absl::Status CheckBlockEntry(uint64_t block, uint64_t block_length, uint32_t entry);
// INVALID_ARGUMENT for a block table that does not fit content and stored length.
absl::Status CheckBlockTable(uint64_t length, uint64_t stored_length,
                             std::span<const uint32_t> block_table);

// What must be read of an object to give content [offset, offset + length): whole leaves (kNone) or
// whole blocks.
struct CoveringRange {
  uint64_t content_offset = 0;  // on a leaf's (block's) start
  uint64_t content_length = 0;
  uint64_t stored_offset = 0;
  uint64_t stored_length = 0;
  uint64_t first_block = 0;  // coded objects
  uint64_t block_count = 0;
};
// The range must lie within the content (checked). INVALID_ARGUMENT for a table that does not fit
// the lengths.
absl::StatusOr<CoveringRange> CoverRange(const ObjectRow& row,
                                         std::span<const uint32_t> block_table, uint64_t offset,
                                         uint64_t length);

// Fills `out` with content from `offset`, verified to the id (or not, where that is asked for):
// straight into `out` where the range is whole leaves of an uncoded object, else through a pooled
// buffer. DATA_LOSS names object and leaf, and is reported to the reader; `out` may then hold
// anything. Where `times` is not null, what the parts of the work took is added to it.
absl::Status ReadContent(ObjectReader& reader, uint64_t offset, MutableBytes out, BufferPool& pool,
                         bool verify = true, ReadTimes* times = nullptr);
// The same for `length` bytes that go elsewhere than into one piece of memory, in steps that stay
// in the processor's cache.
absl::Status ReadContentInSteps(ObjectReader& reader, uint64_t offset, uint64_t length,
                                const PlaceContent& place, BufferPool& pool, bool verify = true,
                                ReadTimes* times = nullptr);
// The same, not verified, of an object that is not coded: straight into the memory that `pieces`
// names.
absl::Status ReadUncodedIntoPieces(ObjectReader& reader, uint64_t offset, uint64_t length,
                                   const PiecesOfContent& pieces, ReadTimes* times = nullptr);
// The whole content, for trees and small things.
absl::StatusOr<std::string> ReadWholeContent(ObjectReader& reader, BufferPool& pool);

}  // namespace tilekv
