#include "kvstore/object/object_read.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/object_errors.h"

namespace tilekv {
namespace {

// How much is read before it is hashed: the hash then finds it in the cache.
constexpr uint64_t kReadStepBytes = 256 * kKiB;
// Bounds the list of pieces of memory that a read goes into.
constexpr uint64_t kPiecesStepBytes = kMiB;

std::string_view ToText(absl::string_view text) { return {text.data(), text.size()}; }

absl::Status BadTable(std::string text) {
  return MakeError(Reason::kInvalidArgument, "block table: " + text);
}

absl::Status CheckWithin(const ObjectRef& ref, uint64_t offset, uint64_t length) {
  if (offset <= ref.length && length <= ref.length - offset) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("{} bytes from {} are not within object {} of {} bytes", length,
                               offset, ref.id.Short(), ref.length));
}

struct ReadHow {
  bool verify = true;
  ReadTimes* times = nullptr;
};

absl::Status Fetch(ObjectReader& reader, uint64_t stored_offset, MutableBytes out, ReadHow how) {
  TimedScope timed(how.times, &ReadTimes::fetch_nanos);
  return reader.ReadStored(stored_offset, out);
}

absl::Status Verify(const ObjectReader& reader, uint64_t first_leaf, Bytes content, ReadHow how) {
  TimedScope timed(how.times, &ReadTimes::verify_nanos);
  return VerifyLeaves(reader.row().ref, reader.leaves(), first_leaf, content);
}

// Reads leaves [first, first + out) of an uncoded object and checks them where they lie.
absl::Status ReadLeaves(ObjectReader& reader, uint64_t first_leaf, MutableBytes out, ReadHow how) {
  if (!how.verify) return Fetch(reader, first_leaf * kLeafBytes, out, how);
  while (!out.empty()) {
    MutableBytes step = out.first(std::min<uint64_t>(out.size(), kReadStepBytes));
    TILEKV_RETURN_IF_ERROR(Fetch(reader, first_leaf * kLeafBytes, step, how));
    TILEKV_RETURN_IF_ERROR(Verify(reader, first_leaf, step, how));
    first_leaf += step.size() / kLeafBytes;
    out = out.subspan(step.size());
  }
  return absl::OkStatus();
}

// The part of `leaf` that lies in [offset, offset + out.size()), through a pooled buffer.
absl::Status ReadPartOfLeaf(ObjectReader& reader, uint64_t leaf, uint64_t offset_in_leaf,
                            MutableBytes out, BufferPool& pool, ReadHow how) {
  Buffer buffer = pool.Get(LeafLength(reader.row().ref.length, leaf));
  TILEKV_RETURN_IF_ERROR(ReadLeaves(reader, leaf, buffer.span(), how));
  std::memcpy(out.data(), buffer.data() + offset_in_leaf, out.size());
  return absl::OkStatus();
}

absl::Status ReadUncoded(ObjectReader& reader, uint64_t offset, MutableBytes out, BufferPool& pool,
                         ReadHow how) {
  uint64_t length = reader.row().ref.length;
  while (!out.empty()) {
    uint64_t leaf = offset / kLeafBytes;
    uint64_t in_leaf = offset % kLeafBytes;
    uint64_t leaf_length = LeafLength(length, leaf);
    uint64_t take = std::min<uint64_t>(out.size(), leaf_length - in_leaf);
    if (take == leaf_length) {
      // Whole leaves, as many as there are. The object's last leaf is whole too if it is asked for
      // to its end.
      take = offset + out.size() == length ? out.size() : out.size() / kLeafBytes * kLeafBytes;
      TILEKV_RETURN_IF_ERROR(ReadLeaves(reader, leaf, out.first(take), how));
    } else {
      TILEKV_RETURN_IF_ERROR(ReadPartOfLeaf(reader, leaf, in_leaf, out.first(take), pool, how));
    }
    offset += take;
    out = out.subspan(take);
  }
  return absl::OkStatus();
}

// One block, decoded and checked, into all of `out`.
absl::Status DecodeBlock(const ObjectReader& reader, BlockCodec& codec, uint64_t block,
                         Bytes stored, MutableBytes out, ReadHow how) {
  const ObjectRef& ref = reader.row().ref;
  {
    TimedScope timed(how.times, &ReadTimes::decode_nanos);
    absl::Status decoded = codec.Decode(stored, reader.block_table()[block], out);
    if (!decoded.ok()) return WithContext(decoded, fmt::format("object {}", ref.id.Short()));
  }
  if (!how.verify) return absl::OkStatus();
  return Verify(reader, block * (kBlockBytes / kLeafBytes), out, how);
}

absl::Status ReadCoded(ObjectReader& reader, uint64_t offset, MutableBytes out, BufferPool& pool,
                       ReadHow how) {
  const ObjectRow& row = reader.row();
  std::span<const uint32_t> table = reader.block_table();
  auto covered = CoverRange(row, table, offset, out.size());
  if (!covered.ok()) return ObjectDamaged(row.ref, ToText(covered.status().message()));
  const CoveringRange& cover = *covered;
  TILEKV_ASSIGN_OR_RETURN(auto codec, NewBlockCodec(row.encoding));
  Buffer stored = pool.Get(std::min<uint64_t>(cover.stored_length, kReadStepBytes));
  Buffer partial;
  uint64_t stored_offset = cover.stored_offset;
  uint64_t end_block = cover.first_block + cover.block_count;
  for (uint64_t block = cover.first_block; block < end_block;) {
    // As many blocks as the buffer holds in one read.
    uint64_t last = block;
    uint64_t bytes = 0;
    while (last < end_block && bytes + (table[last] & ~kRawBlockBit) <= stored.size()) {
      bytes += table[last++] & ~kRawBlockBit;
    }
    TILEKV_RETURN_IF_ERROR(Fetch(reader, stored_offset, stored.span().first(bytes), how));
    stored_offset += bytes;
    Bytes rest = stored.span().first(bytes);
    for (; block < last; ++block) {
      Bytes coded = rest.first(table[block] & ~kRawBlockBit);
      rest = rest.subspan(coded.size());
      uint64_t start = block * kBlockBytes;
      uint64_t length = BlockLength(row.ref.length, block);
      if (start >= offset && start + length <= offset + out.size()) {
        TILEKV_RETURN_IF_ERROR(
            DecodeBlock(reader, *codec, block, coded, out.subspan(start - offset, length), how));
        continue;
      }
      if (!partial) partial = pool.Get(kBlockBytes);
      MutableBytes whole{partial.data(), length};
      TILEKV_RETURN_IF_ERROR(DecodeBlock(reader, *codec, block, coded, whole, how));
      uint64_t from = std::max(start, offset);
      uint64_t to = std::min(start + length, offset + out.size());
      std::memcpy(out.data() + (from - offset), whole.data() + (from - start), to - from);
    }
  }
  return absl::OkStatus();
}

bool IsDamaged(const absl::Status& status) {
  return GetReason(status) == Reason::kDataLoss && !IsUnreadable(status);
}

// A part of the content, whose leaf table was checked. A copy that is damaged is left for the next
// one, where the reader has any.
absl::Status ReadStep(ObjectReader& reader, uint64_t offset, MutableBytes out, BufferPool& pool,
                      ReadHow how) {
  if (out.empty()) return absl::OkStatus();
  while (true) {
    absl::Status status = reader.row().encoding.kind == EncodingKind::kNone
                              ? ReadUncoded(reader, offset, out, pool, how)
                              : ReadCoded(reader, offset, out, pool, how);
    if (!IsDamaged(status)) return status;
    reader.ReportDamage();
    if (!reader.NextCopy()) return status;
  }
}

// Runs `read` between the checks that all reads have in common.
absl::Status ReadChecked(ObjectReader& reader, uint64_t offset, uint64_t length, bool verify,
                         const std::function<absl::Status()>& read) {
  const ObjectRef& ref = reader.row().ref;
  TILEKV_RETURN_IF_ERROR(CheckWithin(ref, offset, length));
  absl::Status status = verify ? VerifyLeafTable(ref, reader.leaves()) : absl::OkStatus();
  if (status.ok()) return read();
  if (IsDamaged(status)) reader.ReportDamage();
  return status;
}

}  // namespace

absl::Status VerifyLeafTable(const ObjectRef& ref, std::span<const LeafHash> leaves) {
  if (leaves.size() != LeafCount(ref.length)) {
    return ObjectDamaged(ref, fmt::format("its leaf table has {} entries, not {}", leaves.size(),
                                          LeafCount(ref.length)));
  }
  if (IdFromLeaves(ref.level, ref.length, leaves) != ref.id) {
    return ObjectDamaged(ref, "its leaf table does not hash to its id");
  }
  return absl::OkStatus();
}

absl::Status VerifyLeaves(const ObjectRef& ref, std::span<const LeafHash> leaves,
                          uint64_t first_leaf, Bytes content) {
  for (uint64_t leaf = first_leaf; !content.empty(); ++leaf) {
    if (leaf >= leaves.size() || leaf >= LeafCount(ref.length)) {
      return ObjectDamaged(ref, fmt::format("there is no leaf {}", leaf));
    }
    uint64_t length = LeafLength(ref.length, leaf);
    if (content.size() < length || HashLeaf(content.first(length)) != leaves[leaf]) {
      return ObjectDamaged(ref, fmt::format("leaf {} (bytes {} to {}) does not hash to its entry",
                                            leaf, leaf * kLeafBytes, leaf * kLeafBytes + length));
    }
    content = content.subspan(length);
  }
  return absl::OkStatus();
}

absl::Status CheckBlockEntry(uint64_t block, uint64_t block_length, uint32_t entry) {
  uint32_t stored = entry & ~kRawBlockBit;
  bool raw = (entry & kRawBlockBit) != 0;
  if (stored > 0 && stored <= kBlockBytes && (!raw || stored == block_length)) {
    return absl::OkStatus();
  }
  return BadTable(fmt::format("block {} cannot have {} bytes", block, stored));
}

absl::Status CheckBlockTable(uint64_t length, uint64_t stored_length,
                             std::span<const uint32_t> block_table) {
  if (block_table.size() != BlockCount(length)) {
    return BadTable(
        fmt::format("{} entries for {} blocks", block_table.size(), BlockCount(length)));
  }
  uint64_t total = 0;
  for (size_t i = 0; i < block_table.size(); ++i) {
    TILEKV_RETURN_IF_ERROR(CheckBlockEntry(i, BlockLength(length, i), block_table[i]));
    total += block_table[i] & ~kRawBlockBit;
  }
  if (total != stored_length) {
    return BadTable(fmt::format("its blocks have {} bytes, not {}", total, stored_length));
  }
  return absl::OkStatus();
}

absl::StatusOr<CoveringRange> CoverRange(const ObjectRow& row,
                                         std::span<const uint32_t> block_table, uint64_t offset,
                                         uint64_t length) {
  TILEKV_RETURN_IF_ERROR(CheckWithin(row.ref, offset, length));
  CoveringRange cover;
  bool coded = row.encoding.kind != EncodingKind::kNone;
  if (coded) {
    TILEKV_RETURN_IF_ERROR(CheckBlockTable(row.ref.length, row.stored_length, block_table));
  } else if (!block_table.empty() || row.stored_length != row.ref.length) {
    return MakeError(Reason::kInvalidArgument, "an object that is not coded has no block table");
  }
  if (length == 0) return cover;
  uint64_t unit = coded ? kBlockBytes : kLeafBytes;
  cover.content_offset = offset / unit * unit;
  uint64_t end = std::min(RoundUp(offset + length, unit), row.ref.length);
  cover.content_length = end - cover.content_offset;
  if (!coded) {
    cover.stored_offset = cover.content_offset;
    cover.stored_length = cover.content_length;
    return cover;
  }
  cover.first_block = cover.content_offset / unit;
  cover.block_count = CeilDiv(cover.content_length, unit);
  for (uint64_t i = 0; i < cover.first_block + cover.block_count; ++i) {
    uint64_t stored = block_table[i] & ~kRawBlockBit;
    (i < cover.first_block ? cover.stored_offset : cover.stored_length) += stored;
  }
  return cover;
}

absl::Status ReadContent(ObjectReader& reader, uint64_t offset, MutableBytes out, BufferPool& pool,
                         bool verify, ReadTimes* times) {
  return ReadChecked(reader, offset, out.size(), verify, [&]() -> absl::Status {
    return ReadStep(reader, offset, out, pool, {verify, times});
  });
}

absl::Status ReadContentInSteps(ObjectReader& reader, uint64_t offset, uint64_t length,
                                const PlaceContent& place, BufferPool& pool, bool verify,
                                ReadTimes* times) {
  return ReadChecked(reader, offset, length, verify, [&]() -> absl::Status {
    Buffer buffer = pool.Get(std::min(length, kReadStepBytes));
    for (uint64_t at = offset; at < offset + length;) {
      // Steps end where blocks end, so that none is decoded twice.
      uint64_t end = std::min(RoundUp(at + 1, kReadStepBytes), offset + length);
      MutableBytes step = buffer.span().first(end - at);
      TILEKV_RETURN_IF_ERROR(ReadStep(reader, at, step, pool, {verify, times}));
      TimedScope timed(times, &ReadTimes::place_nanos);
      place(at - offset, step);
      at = end;
    }
    return absl::OkStatus();
  });
}

absl::Status ReadUncodedIntoPieces(ObjectReader& reader, uint64_t offset, uint64_t length,
                                   const PiecesOfContent& pieces, ReadTimes* times) {
  TILEKV_CHECK(reader.row().encoding.kind == EncodingKind::kNone);
  return ReadChecked(reader, offset, length, false, [&]() -> absl::Status {
    std::vector<MutableBytes> memory;
    for (uint64_t done = 0; done < length;) {
      uint64_t step = std::min(length - done, kPiecesStepBytes);
      memory.clear();
      pieces(done, step, memory);
      TimedScope timed(times, &ReadTimes::fetch_nanos);
      TILEKV_RETURN_IF_ERROR(reader.ReadStoredPieces(offset + done, memory));
      done += step;
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> ReadWholeContent(ObjectReader& reader, BufferPool& pool) {
  std::string content(reader.row().ref.length, '\0');
  TILEKV_RETURN_IF_ERROR(
      ReadContent(reader, 0, {reinterpret_cast<uint8_t*>(content.data()), content.size()}, pool));
  return content;
}

}  // namespace tilekv
