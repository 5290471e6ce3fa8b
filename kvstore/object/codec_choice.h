// Which encoding a content is stored in. People ask for a codec; what becomes of it depends on the
// content. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/object/encoding.h"

namespace tilekv {

enum class Codec : uint8_t {
  kNone = 0,
  kZstd = 1,
  kPlanes = 2,
  kAuto = 3,
};

// "none", "zstd", "planes", "auto"; INVALID_ARGUMENT lists them.
absl::StatusOr<Codec> ParseCodec(std::string_view name);
std::string_view CodecName(Codec codec);

// The encoding for this content. `float_bytes`: the width of the floating-point elements that it
// consists of from its first byte on; 0 where it does not; none where the caller does not know, and
// then the sample shows whether there are any.
//
// kAuto codes a sample of 64 KiB, taken at places that depend on the content's length alone, each
// way that can be: what does not save a twentieth of it is stored as it is, and zstd is only chosen
// over byte planes, which are decoded twice as fast, where it saves a further twentieth. kPlanes
// without floating-point elements is kNone. The result is what to try: EncodeContent still stores
// whole what gains nothing.
Encoding ChooseEncoding(Codec codec, std::optional<uint8_t> float_bytes, Bytes content);

// The sample of a longer content: where its pieces begin. For tests, and for readers that do not
// hold all of it.
inline constexpr uint64_t kSampleBytes = 64 * 1024;
inline constexpr uint64_t kSamplePieces = 8;
inline constexpr uint64_t kSamplePieceBytes = kSampleBytes / kSamplePieces;
// For content longer than kSampleBytes; a multiple of 64.
constexpr uint64_t SamplePieceOffset(uint64_t content_length, uint64_t piece) {
  return (content_length - kSamplePieceBytes) * piece / (kSamplePieces - 1) / 64 * 64;
}
// The same choice from a sample (all of a short content).
Encoding ChooseEncodingBySample(Codec codec, std::optional<uint8_t> float_bytes, Bytes sample);

}  // namespace tilekv
