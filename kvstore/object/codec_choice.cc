#include "kvstore/object/codec_choice.h"

#include <string>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

// Of the sample: the least that is worth decoding for.
constexpr uint64_t kWorthwhileShare = 20;

constexpr Codec kCodecs[] = {Codec::kAuto, Codec::kNone, Codec::kZstd, Codec::kPlanes};

uint64_t CodedBytes(const Encoding& encoding, Bytes sample) {
  absl::StatusOr<CodedContent> coded = EncodeContent(encoding, sample);
  TILEKV_CHECK(coded.ok());  // of an encoding from below
  return coded->encoding.kind == EncodingKind::kNone ? sample.size() : coded->stored.size();
}

// The best of the widths that may be; 0 where there is none.
Encoding BestPlanes(std::optional<uint8_t> float_bytes, Bytes sample, uint64_t& best_bytes) {
  Encoding best;
  best_bytes = sample.size();
  for (uint8_t width : {2, 4, 8, 1}) {
    if (float_bytes.has_value() && *float_bytes != width) continue;
    Encoding planes{.kind = EncodingKind::kPlanes, .width = width};
    uint64_t bytes = CodedBytes(planes, sample);
    if (bytes >= best_bytes) continue;
    best = planes;
    best_bytes = bytes;
  }
  return best;
}

}  // namespace

absl::StatusOr<Codec> ParseCodec(std::string_view name) {
  for (Codec codec : kCodecs) {
    if (name == CodecName(codec)) return codec;
  }
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("'{}' is not a codec; there are auto, none, zstd, planes", Printable(name)));
}

std::string_view CodecName(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      return "none";
    case Codec::kZstd:
      return "zstd";
    case Codec::kPlanes:
      return "planes";
    case Codec::kAuto:
      return "auto";
  }
  return "";
}

Encoding ChooseEncodingBySample(Codec codec, std::optional<uint8_t> float_bytes, Bytes sample) {
  constexpr Encoding kZstd{.kind = EncodingKind::kZstd};
  if (codec == Codec::kNone || sample.empty()) return {};
  if (codec == Codec::kZstd) return kZstd;
  if (codec == Codec::kPlanes && float_bytes.has_value()) {
    return *float_bytes == 0 ? Encoding{} : Encoding{EncodingKind::kPlanes, *float_bytes};
  }
  uint64_t planes_bytes = 0;
  Encoding planes = BestPlanes(float_bytes, sample, planes_bytes);
  if (codec == Codec::kPlanes) return planes;
  uint64_t worthwhile = CeilDiv(sample.size(), kWorthwhileShare);
  bool use_planes = planes_bytes + worthwhile <= sample.size();
  uint64_t to_beat = use_planes ? planes_bytes : sample.size();
  if (CodedBytes(kZstd, sample) + worthwhile <= to_beat) return kZstd;
  return use_planes ? planes : Encoding{};
}

Encoding ChooseEncoding(Codec codec, std::optional<uint8_t> float_bytes, Bytes content) {
  bool by_sample = codec == Codec::kAuto || (codec == Codec::kPlanes && !float_bytes.has_value());
  if (!by_sample || content.size() <= kSampleBytes) {
    return ChooseEncodingBySample(codec, float_bytes, content);
  }
  std::string sample;
  sample.reserve(kSampleBytes);
  for (uint64_t i = 0; i < kSamplePieces; ++i) {
    sample.append(AsText(content.subspan(SamplePieceOffset(content.size(), i), kSamplePieceBytes)));
  }
  return ChooseEncodingBySample(codec, float_bytes, AsBytes(sample));
}

}  // namespace tilekv
