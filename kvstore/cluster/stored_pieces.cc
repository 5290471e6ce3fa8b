#include "kvstore/cluster/stored_pieces.h"

#include <algorithm>

#include "kvstore/base/status.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/object_errors.h"
#include "kvstore/object/object_read.h"

namespace tilekv {

absl::Status CheckCopyTables(const ObjectId& id, const ObjectReader& copy) {
  const ObjectRow& row = copy.row();
  if (row.ref.id != id) return ObjectDamaged(row.ref, "another object was given for it");
  TILEKV_RETURN_IF_ERROR(VerifyLeafTable(row.ref, copy.leaves()));
  if (!IsKnownEncoding(row.encoding)) {
    return ObjectDamaged(row.ref, "it is coded in a way that is not known here");
  }
  // Any range will do: the whole table is checked with it.
  absl::Status table = CoverRange(row, copy.block_table(), 0, 0).status();
  if (table.ok()) return table;
  return ObjectDamaged(row.ref, ErrorText(table));
}

StoredUnits::StoredUnits(const ObjectRow& row, std::span<const uint32_t> block_table)
    : row_(row), table_(block_table) {}

uint64_t StoredUnits::count() const {
  return coded() ? BlockCount(row_.ref.length) : LeafCount(row_.ref.length);
}

uint64_t StoredUnits::UnitBytes(uint64_t unit) const {
  return coded() ? table_[unit] & ~kRawBlockBit : LeafLength(row_.ref.length, unit);
}

StoredPiece StoredUnits::Covering(uint64_t stored_offset, uint64_t length) const {
  TILEKV_CHECK(length > 0 && stored_offset < row_.stored_length &&
               length <= row_.stored_length - stored_offset);
  StoredPiece piece;
  if (!coded()) {
    piece.first_unit = stored_offset / kLeafBytes;
    piece.stored_offset = piece.first_unit * kLeafBytes;
    piece.units = CeilDiv(stored_offset + length, kLeafBytes) - piece.first_unit;
    piece.stored_length =
        std::min(row_.stored_length - piece.stored_offset, piece.units * kLeafBytes);
    return piece;
  }
  while (piece.stored_offset + UnitBytes(piece.first_unit) <= stored_offset) {
    piece.stored_offset += UnitBytes(piece.first_unit++);
  }
  while (piece.stored_offset + piece.stored_length < stored_offset + length) {
    piece.stored_length += UnitBytes(piece.first_unit + piece.units++);
  }
  return piece;
}

StoredPiece StoredUnits::From(uint64_t first, uint64_t max_bytes) const {
  StoredPiece piece{.first_unit = first};
  if (coded()) {
    for (uint64_t unit = 0; unit < first; ++unit) piece.stored_offset += UnitBytes(unit);
  } else {
    piece.stored_offset = first * kLeafBytes;
  }
  for (uint64_t unit = first; unit < count(); ++unit) {
    if (piece.units > 0 && piece.stored_length + UnitBytes(unit) > max_bytes) break;
    piece.stored_length += UnitBytes(unit);
    ++piece.units;
  }
  return piece;
}

std::span<const uint32_t> StoredUnits::TableOf(const StoredPiece& piece) const {
  return coded() ? table_.subspan(piece.first_unit, piece.units) : std::span<const uint32_t>();
}

absl::Status ReadPiece(ObjectReader& copy, const StoredUnits& units, const StoredPiece& piece,
                       MutableBytes out, BufferPool& pool) {
  const ObjectRow& row = copy.row();
  TILEKV_RETURN_IF_ERROR(copy.ReadStored(piece.stored_offset, out));
  if (!units.coded()) return VerifyLeaves(row.ref, copy.leaves(), piece.first_unit, out);
  TILEKV_ASSIGN_OR_RETURN(auto codec, NewBlockCodec(row.encoding));
  Buffer content = pool.Get(kBlockBytes);
  Bytes rest = out;
  for (uint64_t i = 0; i < piece.units; ++i) {
    const uint64_t block = piece.first_unit + i;
    const uint32_t entry = units.TableOf(piece)[i];
    MutableBytes decoded{content.data(), BlockLength(row.ref.length, block)};
    const Bytes stored = rest.first(entry & ~kRawBlockBit);
    rest = rest.subspan(stored.size());
    if (absl::Status status = codec->Decode(stored, entry, decoded); !status.ok()) {
      return ObjectDamaged(row.ref, ErrorText(status));
    }
    TILEKV_RETURN_IF_ERROR(
        VerifyLeaves(row.ref, copy.leaves(), block * (kBlockBytes / kLeafBytes), decoded));
  }
  return absl::OkStatus();
}

}  // namespace tilekv
