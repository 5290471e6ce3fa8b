#include "kvstore/object/codec_choice.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "kvstore/base/defaults.h"
#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_store_conformance.h"

namespace tilekv {
namespace {

constexpr Encoding kZstd{.kind = EncodingKind::kZstd};
Encoding Planes(uint8_t width) { return {.kind = EncodingKind::kPlanes, .width = width}; }

template <typename T>
std::string Normal(uint64_t count) {
  std::mt19937 engine(3);
  std::normal_distribution<double> normal(0, 0.02);
  std::string out;
  for (uint64_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 8) {
      AppendLe(out, normal(engine));
    } else {
      auto bits = std::bit_cast<uint32_t>(static_cast<float>(normal(engine)));
      AppendLe(out, static_cast<T>(bits >> (32 - 8 * sizeof(T))));
    }
  }
  return out;
}

TEST(CodecChoice, TakesPlanesForWeightsByTheirWidthKnownOrNot) {
  std::string bf16 = Normal<uint16_t>(400'000);
  std::string fp32 = Normal<uint32_t>(200'000);
  std::string fp64 = Normal<uint64_t>(100'000);
  for (Codec codec : {Codec::kAuto, Codec::kPlanes}) {
    EXPECT_EQ(ChooseEncoding(codec, 2, AsBytes(bf16)), Planes(2));
    EXPECT_EQ(ChooseEncoding(codec, 4, AsBytes(fp32)), Planes(4));
    EXPECT_EQ(ChooseEncoding(codec, 8, AsBytes(fp64)), Planes(8));
    EXPECT_EQ(ChooseEncoding(codec, std::nullopt, AsBytes(bf16)), Planes(2));
    EXPECT_EQ(ChooseEncoding(codec, std::nullopt, AsBytes(fp32)), Planes(4));
    EXPECT_EQ(ChooseEncoding(codec, std::nullopt, AsBytes(fp64)), Planes(8));
  }
}

TEST(CodecChoice, LeavesNoiseAsItIsAndTakesZstdWhereMatchesSaveMore) {
  SeededRandom random(1);
  std::string noise = random.Bytes(kMiB);
  EXPECT_EQ(ChooseEncoding(Codec::kAuto, std::nullopt, AsBytes(noise)), Encoding{});
  EXPECT_EQ(ChooseEncoding(Codec::kAuto, 4, AsBytes(noise)), Encoding{});
  // Rows that come again: each one noise.
  std::string rows;
  for (int i = 0; i < 1'000; ++i) rows += noise.substr(0, 1'000);
  EXPECT_EQ(ChooseEncoding(Codec::kAuto, 2, AsBytes(rows)), kZstd);
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "\"token\": " + std::to_string(random.Below(100)) + ", ";
  EXPECT_EQ(ChooseEncoding(Codec::kAuto, 0, AsBytes(text)), kZstd);
}

TEST(CodecChoice, DoesWhatIsAskedForButNoPlanesWithoutFloats) {
  std::string content = TestContent(100'000, 1);
  EXPECT_EQ(ChooseEncoding(Codec::kNone, 2, AsBytes(content)), Encoding{});
  EXPECT_EQ(ChooseEncoding(Codec::kZstd, 2, AsBytes(content)), kZstd);
  EXPECT_EQ(ChooseEncoding(Codec::kPlanes, 2, AsBytes(content)), Planes(2));
  EXPECT_EQ(ChooseEncoding(Codec::kPlanes, 0, AsBytes(content)), Encoding{});
  for (Codec codec : {Codec::kNone, Codec::kZstd, Codec::kPlanes, Codec::kAuto}) {
    EXPECT_EQ(*ParseCodec(CodecName(codec)), codec);
    ChooseEncoding(codec, std::nullopt, {});
    ChooseEncoding(codec, 8, AsBytes("odd"));
  }
  EXPECT_EQ(GetReason(ParseCodec("lz4").status()), Reason::kInvalidArgument);
}

TEST(CodecChoice, LooksAtPlacesAllOverTheContentThatElementsBeginAt) {
  for (uint64_t length : {kSampleBytes + 1, uint64_t{8'000'001}, 64 * kMiB}) {
    uint64_t end = 0;
    for (uint64_t i = 0; i < kSamplePieces; ++i) {
      uint64_t offset = SamplePieceOffset(length, i);
      EXPECT_EQ(offset % 64, 0u);
      if (i > 0) {
        EXPECT_GE(offset + 64, end) << length;
      }
      end = offset + kSamplePieceBytes;
      EXPECT_LE(end, length);
    }
    EXPECT_GT(end + 64, length);
  }
  // Noise that only the sample's first piece meets, and a tail of zeros.
  SeededRandom random(1);
  std::string content = random.Bytes(kMiB) + std::string(7 * kMiB, '\0');
  EXPECT_NE(ChooseEncoding(Codec::kAuto, 0, AsBytes(content)), Encoding{});
}

}  // namespace
}  // namespace tilekv
