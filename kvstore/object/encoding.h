// How one copy of an object is stored and sent. The id names content, never its encoding: two
// copies may differ in it.
//
// Content is coded in independent blocks of kBlockBytes, so that a slice decodes little. A coded
// object is the sequence of its blocks and a table with one u32 a block: the stored length, top bit
// set where that block is stored raw because coding gained nothing. Encoding kNone has no table:
// stored bytes are the content.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"

namespace tilekv {

enum class EncodingKind : uint8_t {
  kNone = 0,
  kZstd = 1,
  kPlanes = 2,  // byte planes of elements of `width` bytes
};

struct Encoding {
  EncodingKind kind = EncodingKind::kNone;
  uint8_t width = 0;  // bytes of an element, for kPlanes: 1, 2, 4 or 8

  friend bool operator==(const Encoding&, const Encoding&) = default;
};

inline constexpr uint32_t kRawBlockBit = 0x8000'0000u;

constexpr uint64_t BlockCount(uint64_t length) { return CeilDiv(length, kBlockBytes); }
constexpr uint64_t BlockLength(uint64_t length, uint64_t index) {
  uint64_t start = index * kBlockBytes;
  return length - start < kBlockBytes ? length - start : kBlockBytes;
}

// "none", "zstd", "planes(2)"...; INVALID_ARGUMENT lists what there is.
absl::StatusOr<Encoding> ParseEncoding(std::string_view name);
std::string EncodingName(const Encoding& encoding);
// Whether this build can decode it.
bool IsKnownEncoding(const Encoding& encoding);
// All that this build can decode, but for kNone.
std::span<const Encoding> KnownCodedEncodings();

// Codes blocks of one encoding (not kNone). Not thread-safe; make one for each thread, they are
// reusable.
class BlockCodec {
 public:
  virtual ~BlockCodec() = default;
  // Codes `block` (1 to kBlockBytes) into `out` of at least block.size() bytes. The returned table
  // entry says how long it became; where nothing is gained the block itself is copied and the raw
  // bit set. Never fails.
  uint32_t Encode(Bytes block, MutableBytes out);
  // Decodes exactly out.size() bytes. A stored block that is damaged, that is more than one frame,
  // or whose content has another length, is DATA_LOSS; it never writes past `out`, and takes no
  // memory beyond a block's size, whatever the stored bytes claim.
  absl::Status Decode(Bytes stored, uint32_t table_entry, MutableBytes out);

 private:
  // Length of the coded block, or 0 where it does not fit `out` (less than the block).
  virtual size_t EncodeBlock(Bytes block, MutableBytes out) = 0;
  virtual absl::Status DecodeBlock(Bytes stored, MutableBytes out) = 0;
};
// INVALID_ARGUMENT for an encoding that this build does not know, and for kNone.
absl::StatusOr<std::unique_ptr<BlockCodec>> NewBlockCodec(const Encoding& encoding);

struct CodedContent {
  Encoding encoding;  // kNone where coding the whole gained nothing: stored is then empty, send the
                      // content itself
  std::string stored;           // coded blocks, one after another
  std::vector<uint32_t> table;  // one entry a block
};
// Codes whole content; falls back to kNone where the total is not smaller.
absl::StatusOr<CodedContent> EncodeContent(const Encoding& encoding, Bytes content);

}  // namespace tilekv
