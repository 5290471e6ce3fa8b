// Blocks as they are stored: zstd and byte planes. The bytes under "Golden" are those of
// docs/formats.md: a change of them makes stored copies unreadable.
#include "kvstore/object/encoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kvstore/base/random.h"
#include "kvstore/base/status.h"
#include "kvstore/object/byte_planes.h"
#include "kvstore/object/object_store_conformance.h"

namespace tilekv {
namespace {

constexpr Encoding kZstd{.kind = EncodingKind::kZstd};
constexpr Encoding kPlanes2{.kind = EncodingKind::kPlanes, .width = 2};

Encoding Planes(uint8_t width) { return {.kind = EncodingKind::kPlanes, .width = width}; }

TEST(Encoding, CodesBlocksThatAreDecodedAlone) {
  std::string content = TestContent(3 * kBlockBytes + 5, 1);
  CodedContent coded = *EncodeContent(kZstd, AsBytes(content));
  ASSERT_EQ(coded.table.size(), 4u);
  auto codec = *NewBlockCodec(kZstd);
  uint64_t at = 0;
  for (size_t i = 0; i < coded.table.size(); ++i) {
    uint32_t stored = coded.table[i] & ~kRawBlockBit;
    std::vector<uint8_t> out(BlockLength(content.size(), i));
    ASSERT_TRUE(codec->Decode(AsBytes(coded.stored).subspan(at, stored), coded.table[i], out).ok());
    EXPECT_EQ(AsText(out), content.substr(i * kBlockBytes, out.size()));
    at += stored;
  }
  EXPECT_EQ(at, coded.stored.size());
}

TEST(Encoding, StoresABlockAsItIsWhereNothingIsGainedAndAllOfItWhereNoBlockGains) {
  SeededRandom random(1);
  std::string noise = random.Bytes(kBlockBytes);
  CodedContent mixed = *EncodeContent(kZstd, AsBytes(noise + std::string(kBlockBytes, 'a')));
  EXPECT_EQ(mixed.encoding, kZstd);
  EXPECT_EQ(mixed.table[0], kBlockBytes | kRawBlockBit);
  EXPECT_LT(mixed.table[1], 1000u);
  CodedContent none = *EncodeContent(kZstd, AsBytes(noise));
  EXPECT_EQ(none.encoding, Encoding{});
  EXPECT_TRUE(none.stored.empty() && none.table.empty());
}

TEST(Encoding, RefusesABlockThatLiesAboutItsSizeAndWritesNothingPastItsPlace) {
  std::string content(kBlockBytes, 'a');
  CodedContent coded = *EncodeContent(kZstd, AsBytes(content));
  auto codec = *NewBlockCodec(kZstd);
  std::vector<uint8_t> memory(2 * kBlockBytes, 7);
  for (uint64_t place : {uint64_t{0}, uint64_t{1}, kBlockBytes - 1, kBlockBytes + 1}) {
    absl::Status status =
        codec->Decode(AsBytes(coded.stored), coded.table[0], MutableBytes(memory).first(place));
    EXPECT_EQ(GetReason(status), Reason::kDataLoss) << place;
    EXPECT_TRUE(std::all_of(memory.begin() + static_cast<ptrdiff_t>(place), memory.end(),
                            [](uint8_t b) { return b == 7; }))
        << place;
  }
  MutableBytes right = MutableBytes(memory).first(kBlockBytes);
  EXPECT_EQ(GetReason(codec->Decode(AsBytes(coded.stored), coded.table[0] + 1, right)),
            Reason::kDataLoss);
  EXPECT_EQ(GetReason(codec->Decode(AsBytes("12345"), 5 | kRawBlockBit, right)), Reason::kDataLoss);
  EXPECT_EQ(GetReason(codec->Decode(AsBytes("no zstd"), 7, right)), Reason::kDataLoss);
  EXPECT_TRUE(codec->Decode(AsBytes(coded.stored), coded.table[0], right).ok());
}

TEST(Encoding, RefusesBytesBehindTheFrameOfABlock) {
  std::string content(kBlockBytes, 'a');
  CodedContent coded = *EncodeContent(kZstd, AsBytes(content));
  auto codec = *NewBlockCodec(kZstd);
  std::vector<uint8_t> out(kBlockBytes);
  // Both of them zstd decodes without a word: a skippable frame, and a frame of nothing.
  for (const std::string& extra : {std::string("\x50\x2a\x4d\x18\x04\x00\x00\x00junk", 12),
                                   std::string("\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00", 9)}) {
    std::string stored = coded.stored + extra;
    absl::Status status = codec->Decode(AsBytes(stored), static_cast<uint32_t>(stored.size()), out);
    EXPECT_EQ(GetReason(status), Reason::kDataLoss) << extra.size();
  }
}

TEST(Encoding, KnowsItsNames) {
  EXPECT_EQ(*ParseEncoding("zstd"), kZstd);
  EXPECT_EQ(EncodingName(*ParseEncoding("none")), "none");
  EXPECT_EQ(*ParseEncoding("planes(2)"), kPlanes2);
  EXPECT_EQ(GetReason(ParseEncoding("lz4").status()), Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(ParseEncoding("planes(3)").status()), Reason::kInvalidArgument);
  EXPECT_FALSE(IsKnownEncoding({.kind = EncodingKind::kPlanes, .width = 3}));
  EXPECT_FALSE(IsKnownEncoding({.kind = EncodingKind::kZstd, .width = 2}));
  EXPECT_FALSE(NewBlockCodec({}).ok());
}

// Little-endian values of this width: weights as trained, with special values and odd payloads of
// NaN among them.
std::string Weights(uint8_t width, uint64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, 0.02);
  constexpr double kSpecial[] = {0.0,
                                 -0.0,
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 1e-310,
                                 -1e-40};
  std::string out;
  for (uint64_t i = 0; i < count; ++i) {
    double value = engine() % 100 == 0 ? kSpecial[engine() % std::size(kSpecial)] : normal(engine);
    bool odd_nan = engine() % 200 == 0;
    auto as_float = static_cast<float>(value);
    if (width == 8) {
      AppendLe(out, odd_nan ? 0xfff4'0000'dead'beefu : std::bit_cast<uint64_t>(value));
    } else if (width == 4) {
      AppendLe(out, odd_nan ? 0xffa1'2345u : std::bit_cast<uint32_t>(as_float));
    } else if (width == 2) {
      uint32_t bits = odd_nan ? 0xffa1'2345u : std::bit_cast<uint32_t>(as_float);
      AppendLe(out, static_cast<uint16_t>(bits >> 16));
    } else {
      AppendLe(out, static_cast<uint8_t>(std::bit_cast<uint32_t>(as_float) >> 23));
    }
  }
  return out;
}

absl::StatusOr<std::string> DecodeAll(const CodedContent& coded, uint64_t length) {
  TILEKV_ASSIGN_OR_RETURN(auto codec, NewBlockCodec(coded.encoding));
  std::string out(length, '\0');
  Bytes rest = AsBytes(coded.stored);
  for (uint64_t i = 0; i < coded.table.size(); ++i) {
    MutableBytes place{reinterpret_cast<uint8_t*>(out.data()) + i * kBlockBytes,
                       BlockLength(length, i)};
    Bytes stored = rest.first(coded.table[i] & ~kRawBlockBit);
    rest = rest.subspan(stored.size());
    TILEKV_RETURN_IF_ERROR(codec->Decode(stored, coded.table[i], place));
  }
  return out;
}

const std::string kGoldenContent("\x80\x3f\x80\xbf\xc0\x3f\x80\x3f\xaa", 9);
const std::string kGoldenStored(
    "\x0a\0\0\0\x04\0\0\x80"
    "\x28\xb5\x2f\xfd\x20\x04\x23\0\0\x7f"
    "\x00\x01\x80\x00\xaa",
    23);

TEST(Golden, PlanesOfWidthTwo) {
  auto codec = *NewBlockCodec(kPlanes2);
  std::vector<uint8_t> out(kGoldenContent.size());
  absl::Status status = codec->Decode(AsBytes(kGoldenStored), 23, out);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(AsText(out), kGoldenContent);

  std::array<uint8_t, 4> high{};
  std::array<uint8_t, 4> low{};
  SplitPlanes(2, AsBytes(kGoldenContent).first(8), {high.data(), low.data()});
  EXPECT_EQ(AsText(high), std::string(4, '\x7f'));
  EXPECT_EQ(AsText(low), std::string("\x00\x01\x80\x00", 4));
}

// Against the definition, one element after another: vectors and what they leave over.
template <typename T>
void ExpectSplitAndMerge(uint64_t elements) {
  SeededRandom random(elements);
  std::string content = random.Bytes(elements * sizeof(T));
  std::vector<std::vector<uint8_t>> planes(kMaxPlaneWidth, std::vector<uint8_t>(elements + 1, 9));
  std::array<uint8_t*, kMaxPlaneWidth> to{};
  std::array<const uint8_t*, kMaxPlaneWidth> from{};
  for (size_t p = 0; p < kMaxPlaneWidth; ++p) from[p] = to[p] = planes[p].data();
  SplitPlanes(sizeof(T), AsBytes(content), to);
  for (uint64_t i = 0; i < elements; ++i) {
    T value = LoadLe<T>(AsBytes(content).data() + i * sizeof(T));
    if (sizeof(T) > 1) value = static_cast<T>(value << 1 | value >> (8 * sizeof(T) - 1));
    for (size_t p = 0; p < sizeof(T); ++p) {
      ASSERT_EQ(planes[p][i], static_cast<uint8_t>(value >> 8 * (sizeof(T) - 1 - p)))
          << sizeof(T) << " bytes, element " << i << " of " << elements << ", plane " << p;
    }
  }
  for (const auto& plane : planes) ASSERT_EQ(plane[elements], 9);
  std::vector<uint8_t> merged(content.size() + 1, 9);
  MergePlanes(sizeof(T), from, MutableBytes(merged).first(content.size()));
  ASSERT_EQ(AsText(Bytes(merged).first(content.size())), content);
  ASSERT_EQ(merged.back(), 9);
}

TEST(BytePlanes, AreTheBytesOfEachElementRotatedAndComeTogetherAgain) {
  for (uint64_t elements = 0; elements < 70; ++elements) {
    ExpectSplitAndMerge<uint8_t>(elements);
    ExpectSplitAndMerge<uint16_t>(elements);
    ExpectSplitAndMerge<uint32_t>(elements);
    ExpectSplitAndMerge<uint64_t>(elements);
  }
}

TEST(Planes, GiveBackEveryBitOfAnyContent) {
  SeededRandom random(11);
  for (int round = 0; round < 200; ++round) {
    auto width = static_cast<uint8_t>(1u << random.Below(4));
    uint64_t count = random.Below(round % 10 == 0 ? 700'000 / width : 5'000);
    std::string content;
    switch (random.Below(4)) {
      case 0:
        content = random.Bytes(count * width);
        break;
      case 1:
        content.assign(count * width, static_cast<char>(random.Next()));
        break;
      default:
        content = Weights(width, count, static_cast<uint32_t>(round));
    }
    content += random.Bytes(random.Below(width));  // an odd tail
    CodedContent coded = *EncodeContent(Planes(width), AsBytes(content));
    if (coded.encoding.kind == EncodingKind::kNone) continue;
    ASSERT_LT(coded.stored.size(), content.size());
    auto decoded = DecodeAll(coded, content.size());
    ASSERT_TRUE(decoded.ok()) << round << ": " << decoded.status();
    ASSERT_TRUE(*decoded == content) << round << ", width " << int{width};
  }
}

TEST(Planes, MakeTwoThirdsOfBf16WeightsAndFiveSixthsOfFp32Ones) {
  std::mt19937 engine(5);
  std::normal_distribution<float> normal(0, 0.02F);
  std::string bf16;
  std::string fp32;
  for (int i = 0; i < 500'000; ++i) {
    auto bits = std::bit_cast<uint32_t>(normal(engine));
    AppendLe(fp32, bits);
    AppendLe(bf16, static_cast<uint16_t>(bits >> 16));
  }
  auto share = [](uint8_t width, const std::string& content) {
    return static_cast<double>(EncodeContent(Planes(width), AsBytes(content))->stored.size()) /
           static_cast<double>(content.size());
  };
  EXPECT_LT(share(2, bf16), 0.669);
  EXPECT_LT(share(4, fp32), 0.84);
  // Weights that were widened have planes of zeros.
  std::string widened;
  for (size_t at = 0; at < fp32.size(); at += 4)
    widened += std::string(2, '\0') + fp32.substr(at + 2, 2);
  EXPECT_LT(share(4, widened), 0.34);
  EXPECT_EQ(EncodeContent(Planes(2), AsBytes(TestContent(100, 1).substr(0, 1)))->encoding,
            Encoding{});
}

TEST(Planes, RefuseABlockThatIsCutShortOrLongerOrLiesAboutItsPlanes) {
  std::string content = Weights(4, 9'000, 3) + "abc";
  CodedContent coded = *EncodeContent(Planes(4), AsBytes(content));
  ASSERT_EQ(coded.table.size(), 1u);
  auto codec = *NewBlockCodec(Planes(4));
  std::vector<uint8_t> memory(content.size() + 100, 7);
  MutableBytes out = MutableBytes(memory).first(content.size());
  auto decode = [&](const std::string& stored, MutableBytes to) {
    return codec->Decode(AsBytes(stored), static_cast<uint32_t>(stored.size()), to);
  };
  ASSERT_TRUE(decode(coded.stored, out).ok());
  ASSERT_EQ(AsText(out), content);
  for (size_t length = 0; length < coded.stored.size(); length += length < 64 ? 1 : 509) {
    EXPECT_EQ(GetReason(decode(coded.stored.substr(0, length), out)), Reason::kDataLoss) << length;
  }
  EXPECT_EQ(GetReason(decode(coded.stored + "x", out)), Reason::kDataLoss);
  for (uint64_t place : {uint64_t{0}, uint64_t{3}, content.size() - 4, content.size() + 4}) {
    EXPECT_EQ(GetReason(decode(coded.stored, MutableBytes(memory).first(place))), Reason::kDataLoss)
        << place;
  }
  // Every bit of the table of planes.
  for (size_t bit = 0; bit < 4 * 32; ++bit) {
    std::string lying = coded.stored;
    lying[bit / 8] = static_cast<char>(lying[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(GetReason(decode(lying, out)), Reason::kDataLoss) << bit;
  }
  // A flipped bit of a plane is refused here or changes content, which the id then refuses; it
  // never reaches past the block.
  SeededRandom random(4);
  for (int i = 0; i < 2'000; ++i) {
    std::string flipped = coded.stored;
    size_t at = random.Below(flipped.size());
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << random.Below(8)));
    absl::Status status = decode(flipped, out);
    if (!status.ok()) {
      ASSERT_EQ(GetReason(status), Reason::kDataLoss);
    }
  }
  EXPECT_TRUE(std::all_of(memory.begin() + static_cast<ptrdiff_t>(content.size()), memory.end(),
                          [](uint8_t b) { return b == 7; }));
}

TEST(Encoding, TakesNoMemoryForWhatAFrameClaims) {
  // A frame header that asks for a window and content of 2^56 bytes, with an empty last block; and
  // one of 2^40 bytes in one segment.
  const std::string window("\x28\xb5\x2f\xfd\xc0\xf8\0\0\0\0\0\0\0\x01\x01\0\0", 17);
  const std::string segment("\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\x01\0\0\x01\0\0", 16);
  // 128 KiB of zeros in a block of three bytes, again and again.
  std::string bomb("\x28\xb5\x2f\xfd\x00\x98", 6);
  for (int i = 0; i < 1000; ++i) bomb += std::string("\x02\0\x10\0", 4);
  bomb += std::string("\x01\0\0", 3);
  std::vector<uint8_t> out(4'096);
  for (const std::string& frame : {window, segment, bomb}) {
    absl::Status status =
        (*NewBlockCodec(kZstd))->Decode(AsBytes(frame), static_cast<uint32_t>(frame.size()), out);
    EXPECT_EQ(GetReason(status), Reason::kDataLoss);
    std::string planes;
    AppendLe(planes, static_cast<uint32_t>(frame.size()));
    AppendLe(planes, uint32_t{2'048} | kRawBlockBit);
    planes += frame + std::string(2'048, 'x');
    status = (*NewBlockCodec(kPlanes2))
                 ->Decode(AsBytes(planes), static_cast<uint32_t>(planes.size()), out);
    EXPECT_EQ(GetReason(status), Reason::kDataLoss);
  }
}

}  // namespace
}  // namespace tilekv
