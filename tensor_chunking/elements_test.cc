// Numbers in tensors: decoding, conversion, statistics. Against NumPy: tests/programs.
#include "tensor_chunking/elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kvstore/base/status.h"
#include "tensor_chunking/convert.h"
#include "tensor_chunking/element_stats.h"

namespace tilekv {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

absl::StatusOr<std::string> Convert(DType from, const std::string& in, DType to,
                                    uint64_t* overflowed = nullptr) {
  std::string out(in.size() / DTypeBytes(from) * DTypeBytes(to), '\0');
  ElementConverter converter(from, to);
  TILEKV_RETURN_IF_ERROR(
      converter.Convert(AsBytes(in), {reinterpret_cast<uint8_t*>(out.data()), out.size()}, 0));
  if (overflowed != nullptr) *overflowed = converter.overflowed();
  return out;
}

uint64_t BitsOf(DType to, double value) {
  std::string out = *Convert(DType::kF64, BytesOf<double>({value}), to);
  uint64_t bits = 0;
  std::memcpy(&bits, out.data(), out.size());
  return bits;
}

std::vector<double> AllValues(DType dtype) {
  std::vector<double> values(size_t{1} << DTypeBits(dtype));
  std::string bytes;
  for (size_t i = 0; i < values.size(); ++i) {
    bytes += std::string(reinterpret_cast<const char*>(&i), DTypeBytes(dtype));
  }
  DecodeFloats(dtype, AsBytes(bytes), values);
  return values;
}

const DType kSmallFloats[] = {DType::kF8E5M2,     DType::kF8E4M3, DType::kF8E4M3Fnuz,
                              DType::kF8E5M2Fnuz, DType::kF16,    DType::kBF16};

TEST(Elements, KnownBitsAreKnownValues) {
  EXPECT_EQ(AllValues(DType::kF8E4M3)[0x7e], 448);
  EXPECT_EQ(AllValues(DType::kF8E4M3)[0x01], 1.0 / 512);
  EXPECT_TRUE(std::isnan(AllValues(DType::kF8E4M3)[0x7f]));
  EXPECT_EQ(AllValues(DType::kF8E5M2)[0x7b], 57344);
  EXPECT_EQ(AllValues(DType::kF8E5M2)[0xfc], -kInf);
  EXPECT_EQ(AllValues(DType::kF8E4M3Fnuz)[0x7f], 240);
  EXPECT_TRUE(std::isnan(AllValues(DType::kF8E4M3Fnuz)[0x80]));
  EXPECT_EQ(AllValues(DType::kF8E8M0)[127], 1);
  EXPECT_EQ(AllValues(DType::kF8E8M0)[0], std::ldexp(1.0, -127));
  EXPECT_TRUE(std::isnan(AllValues(DType::kF8E8M0)[0xff]));
  EXPECT_EQ(AllValues(DType::kF16)[0x7bff], 65504);
  EXPECT_EQ(AllValues(DType::kF16)[0x0001], std::ldexp(1.0, -24));
  EXPECT_EQ(AllValues(DType::kBF16)[0x3f80], 1);
}

TEST(Elements, EveryValueOfASmallFloatComesBackFromF64) {
  for (DType dtype : kSmallFloats) {
    std::vector<double> values = AllValues(dtype);
    for (size_t bits = 0; bits < values.size(); ++bits) {
      if (std::isnan(values[bits])) continue;
      ASSERT_EQ(BitsOf(dtype, values[bits]), bits) << DTypeName(dtype);
    }
  }
}

// Of two neighbours the nearer one; in the middle the one whose last bit is 0.
TEST(Elements, BetweenTwoValuesTheNearestIsTakenAndTheEvenOneInTheMiddle) {
  for (DType dtype : kSmallFloats) {
    std::vector<double> values = AllValues(dtype);
    const FloatFormat& format = *FloatFormatOf(dtype);
    for (uint64_t low = 0; low < format.largest(); ++low) {
      const double middle = (values[low] + values[low + 1]) / 2;
      const uint64_t even = low % 2 == 0 ? low : low + 1;
      ASSERT_EQ(BitsOf(dtype, middle), even) << DTypeName(dtype) << " " << low;
      ASSERT_EQ(BitsOf(dtype, std::nextafter(middle, 0)), low) << DTypeName(dtype) << " " << low;
      ASSERT_EQ(BitsOf(dtype, std::nextafter(middle, kInf)), low + 1)
          << DTypeName(dtype) << " " << low;
    }
  }
}

TEST(Elements, F64ToF32IsWhatTheProcessorMakesOfIt) {
  std::mt19937_64 random(7);
  std::vector<double> values = {0.0, -0.0, kInf, -kInf, 1e300, 1e-300, 3.4028235677973366e38};
  for (int i = 0; i < 100'000; ++i) {
    double value = std::bit_cast<double>(random());
    if (i % 2 == 0) value = std::ldexp(static_cast<double>(random()), int(random() % 300) - 180);
    if (!std::isnan(value)) values.push_back(value);
  }
  std::vector<float> expected(values.begin(), values.end());
  EXPECT_TRUE(*Convert(DType::kF64, BytesOf(values), DType::kF32) == BytesOf(expected));
}

TEST(Elements, IntegersOf64BitsAreRoundedOnce) {
  std::mt19937_64 random(8);
  std::vector<int64_t> values = {0,
                                 1,
                                 -1,
                                 std::numeric_limits<int64_t>::min(),
                                 std::numeric_limits<int64_t>::max(),
                                 (1LL << 53) + 1};
  // Halfway for F32 in 24 bits, and a bit more that a detour over F64 would drop.
  values.push_back((1LL << 62) + (1LL << 38) + 1);
  for (int i = 0; i < 10'000; ++i) values.push_back(static_cast<int64_t>(random()) >> (i % 60));
  EXPECT_TRUE(*Convert(DType::kI64, BytesOf(values), DType::kF32) ==
              BytesOf(std::vector<float>(values.begin(), values.end())));
  EXPECT_TRUE(*Convert(DType::kI64, BytesOf(values), DType::kF64) ==
              BytesOf(std::vector<double>(values.begin(), values.end())));
}

TEST(Elements, FractionsBecomeTheNearestInteger) {
  EXPECT_EQ(*Convert(DType::kF64, BytesOf<double>({0.5, 1.5, 2.5, -0.5, -1.5, 126.7, -128.5}),
                     DType::kI8),
            BytesOf<int8_t>({0, 2, 2, 0, -2, 127, -128}));
  EXPECT_EQ(*Convert(DType::kF64, BytesOf<double>({18446744073709549568.0}), DType::kU64),
            BytesOf<uint64_t>({18446744073709549568U}));
}

TEST(Elements, WhatATypeCannotHoldIsAnErrorThatNamesTheElement) {
  struct Case {
    double value;
    DType to;
    std::string text;
  };
  for (const Case& bad :
       {Case{128, DType::kI8, "is 128, which I8 cannot hold"},
        Case{-1, DType::kU8, "is -1, which U8"}, Case{2, DType::kBool, "is 2, which BOOL"},
        Case{kNan, DType::kI32, "is nan, which I32"}, Case{kInf, DType::kI64, "is inf, which I64"},
        Case{1e30, DType::kU64, "is 1e+30, which U64"},
        Case{9.3e18, DType::kI64, "is 9.3e+18, which I64"},
        Case{500, DType::kF8E4M3, "is 500, which F8_E4M3"},
        Case{kInf, DType::kF8E4M3, "is inf, which F8_E4M3"},
        Case{-1000, DType::kF8E4M3Fnuz, "is -1000, which F8_E4M3FNUZ"}}) {
    auto out = Convert(DType::kF64, BytesOf<double>({1, 0, bad.value, 0}), bad.to);
    EXPECT_EQ(GetReason(out.status()), Reason::kInvalidArgument);
    EXPECT_THAT(ErrorText(out.status()), testing::HasSubstr("element 2 " + bad.text));
  }
  auto integers = Convert(DType::kI16, BytesOf<int16_t>({-129}), DType::kI8);
  EXPECT_THAT(ErrorText(integers.status()), testing::HasSubstr("element 0 is -129, which I8"));
}

TEST(Elements, BeyondTheLargestIsInfinityAndCounted) {
  uint64_t overflowed = 0;
  EXPECT_EQ(*Convert(DType::kF32, BytesOf<float>({65519, 65520, -1e9F, INFINITY}), DType::kF16,
                     &overflowed),
            BytesOf<uint16_t>({0x7bff, 0x7c00, 0xfc00, 0x7c00}));
  EXPECT_EQ(overflowed, 2);
}

TEST(Elements, NanStaysNanWithItsSign) {
  EXPECT_EQ(BitsOf(DType::kF16, kNan), 0x7e00U);
  EXPECT_EQ(BitsOf(DType::kF16, -kNan), 0xfe00U);
  EXPECT_EQ(BitsOf(DType::kBF16, kNan), 0x7fc0U);
  EXPECT_EQ(BitsOf(DType::kF8E4M3, -kNan), 0xffU);
  EXPECT_EQ(BitsOf(DType::kF8E4M3Fnuz, kNan), 0x80U);
  EXPECT_EQ(BitsOf(DType::kF8E4M3Fnuz, -0.0), 0U);
}

TEST(Elements, WhatIsNoNumberIsRefused) {
  for (DType dtype : {DType::kF4, DType::kF6E2M3, DType::kC64}) {
    EXPECT_FALSE(ElementConverter::Check(dtype, DType::kF32).ok());
    EXPECT_FALSE(ElementConverter::Check(DType::kF32, dtype).ok());
  }
  EXPECT_FALSE(ElementConverter::Check(DType::kF32, DType::kF8E8M0).ok());
  EXPECT_TRUE(ElementConverter::Check(DType::kF8E8M0, DType::kF32).ok());
}

TEST(ElementStats, CountsSpecialsAndMeasuresTheRest) {
  ElementStats stats;
  stats.Add(DType::kF32, AsBytes(BytesOf<float>({1, 2, 3, 4, 0, -0.0F, 1e-40F, NAN, -INFINITY})));
  EXPECT_EQ(stats.count, 9);
  EXPECT_EQ(stats.finite(), 7);
  EXPECT_EQ(stats.zeros, 2);
  EXPECT_EQ(stats.subnormals, 1);
  EXPECT_EQ(stats.nans, 1);
  EXPECT_EQ(stats.infinities, 1);
  EXPECT_EQ(stats.least, 0);
  EXPECT_EQ(stats.greatest, 4);
  EXPECT_NEAR(double(stats.mean), 10.0 / 7, 1e-15);
}

TEST(ElementStats, PiecesInAnyOrderMakeTheSameAsTheWhole) {
  std::mt19937_64 random(9);
  std::vector<double> values;
  for (int i = 0; i < 50'000; ++i) values.push_back(1e6 + double(random() % 1'000'000) / 1e6);
  std::string bytes = BytesOf(values);
  ElementStats whole, pieces;
  whole.Add(DType::kF64, AsBytes(bytes));
  for (size_t at = 40'000 * 8; true; at -= 10'000 * 8) {
    ElementStats piece;
    piece.Add(DType::kF64, AsBytes(bytes).subspan(at, 10'000 * 8));
    pieces.Merge(piece);
    if (at == 0) break;
  }
  EXPECT_EQ(pieces.least, whole.least);
  EXPECT_EQ(pieces.greatest, whole.greatest);
  EXPECT_NEAR(double(pieces.mean), double(whole.mean), 1e-9);
  EXPECT_NEAR(double(pieces.deviation()), double(whole.deviation()), 1e-12);
  // Of numbers spread evenly over [0, 1): far from zero they lose nothing.
  EXPECT_NEAR(double(whole.deviation()), std::sqrt(1.0 / 12), 1e-2);
}

TEST(ElementStats, LargeIntegersAreExact) {
  ElementStats stats;
  stats.Add(DType::kU64, AsBytes(BytesOf<uint64_t>({~uint64_t{0}, ~uint64_t{0} - 1})));
  EXPECT_EQ(stats.greatest - stats.least, 1);
}

TEST(ElementChanges, MeasuresWhatChangedAndCountsWhatBecameSpecial) {
  ElementChanges changes;
  changes.Add(DType::kF32, AsBytes(BytesOf<float>({1, 2, 4, 0, 5, NAN, INFINITY, 7})),
              AsBytes(BytesOf<float>({1, 3, 4.5F, 8, NAN, NAN, 1, -INFINITY})));
  EXPECT_EQ(changes.count, 8);
  EXPECT_EQ(changes.changed, 6);
  EXPECT_EQ(changes.largest_absolute, 8);
  EXPECT_EQ(changes.largest_relative, 0.5);
  EXPECT_EQ(changes.new_nans, 1);
  EXPECT_EQ(changes.new_infinities, 1);
}

}  // namespace
}  // namespace tilekv
