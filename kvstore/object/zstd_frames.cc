#include "kvstore/object/zstd_frames.h"

// For ZSTD_c_literalCompressionMode.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

// Weights gain almost nothing from higher levels, and cost several times as much.
constexpr int kFastLevel = 1;

// Negative levels step over so many bytes between two looks for a match: below this one there is
// none in a block, but zstd then leaves out entropy coding unless told otherwise.
constexpr int kNoMatchesLevel = -131'072;

absl::Status Damaged(std::string_view what) {
  return MakeError(Reason::kDataLoss, fmt::format("coded block: {}", what));
}

ZSTD_CCtx* NewContext(ZstdEncoder::Mode mode) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  TILEKV_CHECK(context != nullptr);
  if (mode == ZstdEncoder::Mode::kLiterals &&
      !ZSTD_isError(
          ZSTD_CCtx_setParameter(context, ZSTD_c_literalCompressionMode, ZSTD_lcm_huffman))) {
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, kNoMatchesLevel);
  } else {
    // Of the second mode too where a library does not know the parameter: slower to decode only.
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, kFastLevel);
  }
  return context;
}

}  // namespace

ZstdEncoder::~ZstdEncoder() { ZSTD_freeCCtx(context_); }

size_t ZstdEncoder::Encode(Bytes content, MutableBytes out) {
  if (context_ == nullptr) context_ = NewContext(mode_);
  size_t coded = ZSTD_compress2(context_, out.data(), out.size(), content.data(), content.size());
  return ZSTD_isError(coded) ? 0 : coded;
}

ZstdDecoder::~ZstdDecoder() { ZSTD_freeDCtx(context_); }

absl::Status ZstdDecoder::Decode(Bytes frame, MutableBytes out) {
  if (context_ == nullptr) {
    context_ = ZSTD_createDCtx();
    TILEKV_CHECK(context_ != nullptr);
  }
  // One frame and nothing behind it: bytes that decoding passes over are not content.
  if (ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    return Damaged(fmt::format("its {} bytes are not one zstd frame", frame.size()));
  }
  // In one call with the whole destination: no window is allocated, whatever the frame asks for,
  // and nothing is written past `out`.
  size_t decoded =
      ZSTD_decompressDCtx(context_, out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(decoded)) return Damaged(ZSTD_getErrorName(decoded));
  if (decoded != out.size()) {
    return Damaged(fmt::format("it decodes to {} bytes, not {}", decoded, out.size()));
  }
  return absl::OkStatus();
}

}  // namespace tilekv
