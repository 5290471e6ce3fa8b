#include "kvstore/object/encoding.h"

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/block_codecs.h"

namespace tilekv {
namespace {

absl::Status DamagedBlock(std::string_view what) {
  return MakeError(Reason::kDataLoss, fmt::format("coded block: {}", what));
}

constexpr Encoding kCoded[] = {{EncodingKind::kZstd, 0},
                               {EncodingKind::kPlanes, 1},
                               {EncodingKind::kPlanes, 2},
                               {EncodingKind::kPlanes, 4},
                               {EncodingKind::kPlanes, 8}};

}  // namespace

uint32_t BlockCodec::Encode(Bytes block, MutableBytes out) {
  TILEKV_CHECK(!block.empty() && block.size() <= kBlockBytes && out.size() >= block.size());
  // One byte less than the block: what does not fit has gained nothing.
  if (size_t coded = EncodeBlock(block, out.first(block.size() - 1)); coded != 0) {
    return static_cast<uint32_t>(coded);
  }
  std::memcpy(out.data(), block.data(), block.size());
  return static_cast<uint32_t>(block.size()) | kRawBlockBit;
}

absl::Status BlockCodec::Decode(Bytes stored, uint32_t table_entry, MutableBytes out) {
  uint32_t length = table_entry & ~kRawBlockBit;
  if (length != stored.size()) {
    return DamagedBlock(fmt::format("{} bytes where the table says {}", stored.size(), length));
  }
  if ((table_entry & kRawBlockBit) == 0) return DecodeBlock(stored, out);
  if (stored.size() != out.size()) {
    return DamagedBlock(
        fmt::format("{} bytes stored as they are, not {}", stored.size(), out.size()));
  }
  if (!out.empty()) std::memcpy(out.data(), stored.data(), out.size());
  return absl::OkStatus();
}

absl::StatusOr<Encoding> ParseEncoding(std::string_view name) {
  if (name == EncodingName({})) return Encoding{};
  std::string names = EncodingName({});
  for (const Encoding& encoding : kCoded) {
    if (name == EncodingName(encoding)) return encoding;
    names += ", " + EncodingName(encoding);
  }
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("'{}' is not an encoding; there are {}", Printable(name), names));
}

std::string EncodingName(const Encoding& encoding) {
  switch (encoding.kind) {
    case EncodingKind::kNone:
      return "none";
    case EncodingKind::kZstd:
      return "zstd";
    case EncodingKind::kPlanes:
      return fmt::format("planes({})", encoding.width);
  }
  return fmt::format("encoding {}", static_cast<int>(encoding.kind));
}

std::span<const Encoding> KnownCodedEncodings() { return kCoded; }

bool IsKnownEncoding(const Encoding& encoding) {
  return encoding == Encoding{} ||
         std::find(std::begin(kCoded), std::end(kCoded), encoding) != std::end(kCoded);
}

absl::StatusOr<std::unique_ptr<BlockCodec>> NewBlockCodec(const Encoding& encoding) {
  if (encoding.kind != EncodingKind::kNone && IsKnownEncoding(encoding)) {
    return encoding.kind == EncodingKind::kZstd ? NewZstdCodec() : NewPlanesCodec(encoding.width);
  }
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("no blocks are coded with '{}' here", EncodingName(encoding)));
}

absl::StatusOr<CodedContent> EncodeContent(const Encoding& encoding, Bytes content) {
  CodedContent coded;
  if (encoding.kind == EncodingKind::kNone) return coded;
  TILEKV_ASSIGN_OR_RETURN(auto codec, NewBlockCodec(encoding));
  // Room for one block beyond what is there, so that a block is coded in place.
  for (uint64_t at = 0; at < content.size(); at += kBlockBytes) {
    Bytes block = content.subspan(at, std::min<uint64_t>(kBlockBytes, content.size() - at));
    size_t used = coded.stored.size();
    coded.stored.resize(used + block.size());
    uint32_t entry = codec->Encode(
        block, {reinterpret_cast<uint8_t*>(coded.stored.data()) + used, block.size()});
    coded.stored.resize(used + (entry & ~kRawBlockBit));
    coded.table.push_back(entry);
  }
  // The table counts too: coding that saves less than it costs is none.
  if (coded.stored.size() + coded.table.size() * sizeof(uint32_t) >= content.size()) {
    return CodedContent{};
  }
  coded.encoding = encoding;
  return coded;
}

}  // namespace tilekv
