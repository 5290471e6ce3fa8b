#include "kvstore/object/small_content.h"

#include <zstd.h>

#include <vector>

#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

std::optional<ObjectRef> RecognizeContent(const ObjectId& id, Bytes content) {
  LeafTable leaves;
  HashLeaves(content, leaves);
  for (uint8_t level = 0; level <= kMaxLevel; ++level) {
    if (IdFromLeaves(level, content.size(), leaves) == id) {
      return ObjectRef{.id = id, .level = level, .length = content.size()};
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> LengthOfFrame(Bytes frame) {
  unsigned long long length = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (length >= kInlineContentBytes) return std::nullopt;  // or unknown, or no frame
  return length;
}

// docs/formats.md, section 3: a table of the planes' lengths, the planes, the rest of the content.
std::optional<uint64_t> LengthOfPlanes(uint8_t width, Bytes block) {
  ByteReader in(block);
  std::vector<uint32_t> entries;
  for (uint8_t plane = 0; plane < width; ++plane) entries.push_back(in.Read<uint32_t>());
  if (!in.ok()) return std::nullopt;
  std::optional<uint64_t> elements;
  for (uint32_t entry : entries) {
    uint64_t bytes = entry & ~kRawBlockBit;
    Bytes plane = in.Take(bytes);
    if (!in.ok()) return std::nullopt;
    elements = (entry & kRawBlockBit) != 0 ? bytes : LengthOfFrame(plane);
    if (!elements.has_value()) return std::nullopt;
  }
  return *elements * width + in.rest().size();
}

// Of one coded block.
std::optional<uint64_t> LengthOf(const Encoding& encoding, uint32_t entry, Bytes block) {
  if ((entry & kRawBlockBit) != 0) return block.size();
  if (encoding.kind == EncodingKind::kPlanes) return LengthOfPlanes(encoding.width, block);
  return LengthOfFrame(block);
}

}  // namespace

std::optional<ObjectRow> RecognizeSmallContent(const ObjectId& id, const std::string& value) {
  Bytes plain = AsBytes(value);
  if (std::optional<ObjectRef> ref = RecognizeContent(id, plain)) {
    return ObjectRow{.ref = *ref, .stored_length = plain.size()};
  }
  if (plain.size() < sizeof(uint32_t)) return std::nullopt;
  uint32_t entry = LoadLe<uint32_t>(plain.data());
  Bytes block = plain.subspan(sizeof(uint32_t));
  for (const Encoding& encoding : KnownCodedEncodings()) {
    std::optional<uint64_t> length = LengthOf(encoding, entry, block);
    if (!length.has_value() || *length == 0 || *length >= kInlineContentBytes) continue;
    auto codec = NewBlockCodec(encoding);
    std::vector<uint8_t> content(*length);
    if (!codec.ok() || !(*codec)->Decode(block, entry, content).ok()) continue;
    if (std::optional<ObjectRef> ref = RecognizeContent(id, content)) {
      return ObjectRow{.ref = *ref, .encoding = encoding, .stored_length = block.size()};
    }
  }
  return std::nullopt;
}

}  // namespace tilekv
