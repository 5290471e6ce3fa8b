// Stored bytes of one copy, verified to the id without changing their form: what a node hands on of
// another node's copy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/object/object_store.h"

namespace tilekv {

// Of a copy that was just opened as the object `id`: its row, leaf table and block table belong
// together and to the id. DATA_LOSS otherwise; then nothing of it may be used.
absl::Status CheckCopyTables(const ObjectId& id, const ObjectReader& copy);

// Part of a copy in whole units: leaves, or blocks where it is coded.
struct StoredPiece {
  uint64_t stored_offset = 0;
  uint64_t stored_length = 0;
  uint64_t first_unit = 0;
  uint64_t units = 0;
};

// How a copy divides into units. Views of the copy's tables: it outlives this.
class StoredUnits {
 public:
  // CheckCopyTables has passed for the row and the table.
  StoredUnits(const ObjectRow& row, std::span<const uint32_t> block_table);

  bool coded() const { return row_.encoding.kind != EncodingKind::kNone; }
  uint64_t count() const;
  // The least piece that holds this part of the stored bytes, which is not empty (checked).
  StoredPiece Covering(uint64_t stored_offset, uint64_t length) const;
  // From unit `first` on, as many as fit `max_bytes`, one at least.
  StoredPiece From(uint64_t first, uint64_t max_bytes) const;
  // Entries of the piece's blocks; none where the copy is not coded.
  std::span<const uint32_t> TableOf(const StoredPiece& piece) const;

 private:
  uint64_t UnitBytes(uint64_t unit) const;

  const ObjectRow& row_;
  const std::span<const uint32_t> table_;
};

// Fills `out`, as long as the piece, and checks it to the leaf table. DATA_LOSS names the object
// and leaf.
absl::Status ReadPiece(ObjectReader& copy, const StoredUnits& units, const StoredPiece& piece,
                       MutableBytes out, BufferPool& pool);

}  // namespace tilekv
