#include "kvstore/object/encoding.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

// Weights gain almost nothing from higher levels, and cost several times as much.
constexpr int kZstdLevel = 1;

absl::Status DamagedBlock(std::string_view what) {
  return MakeError(Reason::kDataLoss, fmt::format("coded block: {}", what));
}

struct FreeZstd {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

class ZstdCodec : public BlockCodec {
 public:
  uint32_t Encode(Bytes block, MutableBytes out) override {
    TILEKV_CHECK(!block.empty() && block.size() <= kBlockBytes && out.size() >= block.size());
    if (encoder_ == nullptr) {
      encoder_.reset(ZSTD_createCCtx());
      TILEKV_CHECK(encoder_ != nullptr);
    }
    // One byte less than the block: what does not fit has gained nothing.
    size_t coded = ZSTD_compressCCtx(encoder_.get(), out.data(), block.size() - 1, block.data(),
                                     block.size(), kZstdLevel);
    if (!ZSTD_isError(coded)) return static_cast<uint32_t>(coded);
    std::memcpy(out.data(), block.data(), block.size());
    return static_cast<uint32_t>(block.size()) | kRawBlockBit;
  }

  absl::Status Decode(Bytes stored, uint32_t table_entry, MutableBytes out) override {
    uint32_t length = table_entry & ~kRawBlockBit;
    if (length != stored.size()) {
      return DamagedBlock(fmt::format("{} bytes where the table says {}", stored.size(), length));
    }
    if ((table_entry & kRawBlockBit) != 0) {
      if (stored.size() != out.size()) {
        return DamagedBlock(
            fmt::format("{} bytes stored as they are, not {}", stored.size(), out.size()));
      }
      if (!out.empty()) std::memcpy(out.data(), stored.data(), out.size());
      return absl::OkStatus();
    }
    if (decoder_ == nullptr) {
      decoder_.reset(ZSTD_createDCtx());
      TILEKV_CHECK(decoder_ != nullptr);
    }
    // One frame and nothing behind it: bytes that decoding passes over are not content.
    if (ZSTD_findFrameCompressedSize(stored.data(), stored.size()) != stored.size()) {
      return DamagedBlock(fmt::format("its {} bytes are not one zstd frame", stored.size()));
    }
    // In one call with the whole destination: no window is allocated, whatever the frame asks for,
    // and nothing is written past `out`.
    size_t decoded =
        ZSTD_decompressDCtx(decoder_.get(), out.data(), out.size(), stored.data(), stored.size());
    if (ZSTD_isError(decoded)) return DamagedBlock(ZSTD_getErrorName(decoded));
    if (decoded != out.size()) {
      return DamagedBlock(fmt::format("it decodes to {} bytes, not {}", decoded, out.size()));
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<ZSTD_CCtx, FreeZstd> encoder_;
  std::unique_ptr<ZSTD_DCtx, FreeZstd> decoder_;
};

}  // namespace

absl::StatusOr<Encoding> ParseEncoding(std::string_view name) {
  if (name == "none") return Encoding{};
  if (name == "zstd") return Encoding{.kind = EncodingKind::kZstd};
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("'{}' is not an encoding; there are none, zstd", Printable(name)));
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

bool IsKnownEncoding(const Encoding& encoding) {
  return (encoding.kind == EncodingKind::kNone || encoding.kind == EncodingKind::kZstd) &&
         encoding.width == 0;
}

absl::StatusOr<std::unique_ptr<BlockCodec>> NewBlockCodec(const Encoding& encoding) {
  if (encoding.kind == EncodingKind::kZstd && IsKnownEncoding(encoding)) {
    return std::make_unique<ZstdCodec>();
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
