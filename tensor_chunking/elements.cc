#include "tensor_chunking/elements.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

using Specials = FloatFormat::Specials;

constexpr FloatFormat kF8E5M2{5, 2, 15, Specials::kIeee};
constexpr FloatFormat kF8E4M3{4, 3, 7, Specials::kNoInf};
constexpr FloatFormat kF8E8M0{8, 0, 127, Specials::kScale};
constexpr FloatFormat kF8E4M3Fnuz{4, 3, 8, Specials::kNoSign};
constexpr FloatFormat kF8E5M2Fnuz{5, 2, 16, Specials::kNoSign};
constexpr FloatFormat kF16{5, 10, 15, Specials::kIeee};
constexpr FloatFormat kBF16{8, 7, 127, Specials::kIeee};
constexpr FloatFormat kF32{8, 23, 127, Specials::kIeee};
constexpr FloatFormat kF64{11, 52, 1023, Specials::kIeee};

float NanOf(bool negative) {
  return std::copysign(std::numeric_limits<float>::quiet_NaN(), negative ? -1.0F : 1.0F);
}

// Any format of at most 16 bits; floats hold all of them.
float DecodeSmall(const FloatFormat& format, uint32_t bits) {
  const uint32_t sign_bit = static_cast<uint32_t>(SignBit(format));
  const bool negative = sign_bit != 0 && (bits & sign_bit) != 0;
  const uint32_t magnitude = sign_bit == 0 ? bits : bits & (sign_bit - 1);
  if (format.specials == Specials::kNoSign && bits == sign_bit) return NanOf(false);
  if (magnitude > format.largest()) {
    bool infinite = format.has_infinity() && magnitude == format.largest() + 1;
    if (!infinite) return NanOf(negative);
    return negative ? -std::numeric_limits<float>::infinity()
                    : std::numeric_limits<float>::infinity();
  }
  uint32_t mantissa = magnitude & ((1U << format.mantissa_bits) - 1);
  int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  if (format.specials == Specials::kScale || exponent > 0) {
    mantissa |= 1U << format.mantissa_bits;
  } else {
    exponent = 1;
  }
  float value =
      std::ldexp(static_cast<float>(mantissa), exponent - format.bias - format.mantissa_bits);
  return negative ? -value : value;
}

std::vector<float> MakeTable(const FloatFormat& format, uint32_t bits) {
  std::vector<float> table(size_t{1} << bits);
  for (uint32_t i = 0; i < table.size(); ++i) table[i] = DecodeSmall(format, i);
  return table;
}

// Every value of a type of 8 or 16 bits.
const std::vector<float>& TableOf(DType dtype) {
  static const std::vector<float> e5m2 = MakeTable(kF8E5M2, 8);
  static const std::vector<float> e4m3 = MakeTable(kF8E4M3, 8);
  static const std::vector<float> e8m0 = MakeTable(kF8E8M0, 8);
  static const std::vector<float> e4m3_fnuz = MakeTable(kF8E4M3Fnuz, 8);
  static const std::vector<float> e5m2_fnuz = MakeTable(kF8E5M2Fnuz, 8);
  static const std::vector<float> f16 = MakeTable(kF16, 16);
  switch (dtype) {
    case DType::kF8E5M2:
      return e5m2;
    case DType::kF8E4M3:
      return e4m3;
    case DType::kF8E8M0:
      return e8m0;
    case DType::kF8E4M3Fnuz:
      return e4m3_fnuz;
    case DType::kF8E5M2Fnuz:
      return e5m2_fnuz;
    default:
      TILEKV_CHECK(dtype == DType::kF16);
      return f16;
  }
}

template <typename T>
T Load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void DecodeIntegersAs(Bytes in, std::span<Number> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value = Load<T>(in.data() + i * sizeof(T));
    bool negative = value < 0;
    // Two's complement, its sign extended.
    uint64_t bits = static_cast<uint64_t>(value);  // NOLINT(bugprone-signed-char-misuse)
    out[i] = {negative, negative ? ~bits + 1 : bits, 0};
  }
}

}  // namespace

uint64_t SignBit(const FloatFormat& format) {
  if (format.specials == Specials::kScale) return 0;
  return uint64_t{1} << (format.exponent_bits + format.mantissa_bits);
}

uint64_t FloatFormat::largest() const {
  const uint64_t all_ones = (uint64_t{1} << (exponent_bits + mantissa_bits)) - 1;
  switch (specials) {
    case Specials::kIeee:
      return all_ones - (uint64_t{1} << mantissa_bits);
    case Specials::kNoInf:
    case Specials::kScale:
      return all_ones - 1;
    case Specials::kNoSign:
      return all_ones;
  }
  return all_ones;
}

double FloatFormat::least_normal() const {
  return std::ldexp(1.0, specials == Specials::kScale ? -bias : 1 - bias);
}

const FloatFormat* FloatFormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF8E5M2:
      return &kF8E5M2;
    case DType::kF8E4M3:
      return &kF8E4M3;
    case DType::kF8E8M0:
      return &kF8E8M0;
    case DType::kF8E4M3Fnuz:
      return &kF8E4M3Fnuz;
    case DType::kF8E5M2Fnuz:
      return &kF8E5M2Fnuz;
    case DType::kF16:
      return &kF16;
    case DType::kBF16:
      return &kBF16;
    case DType::kF32:
      return &kF32;
    case DType::kF64:
      return &kF64;
    default:
      return nullptr;
  }
}

bool IntegerRangeOf(DType dtype, IntegerRange& range) {
  switch (dtype) {
    case DType::kBool:
      range = {false, 1, 0};
      return true;
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
      range = {false, ~uint64_t{0} >> (64 - DTypeBits(dtype)), 0};
      return true;
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
      range = {true, (~uint64_t{0} >> (64 - DTypeBits(dtype))) / 2,
               uint64_t{1} << (DTypeBits(dtype) - 1)};
      return true;
    default:
      return false;
  }
}

absl::Status CheckNumeric(DType dtype) {
  IntegerRange range;
  if (FloatFormatOf(dtype) != nullptr || IntegerRangeOf(dtype, range)) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("elements of {} are not taken as numbers; integers, BOOL, and "
                               "floating types of 8 bits and more are",
                               DTypeName(dtype)));
}

Number NumberOf(double finite) {
  int exponent = 0;
  double fraction = std::frexp(std::fabs(finite), &exponent);  // in [0.5, 1), or 0
  return {std::signbit(finite), static_cast<uint64_t>(std::ldexp(fraction, 53)), exponent - 53};
}

void DecodeFloats(DType dtype, Bytes in, std::span<double> out) {
  const uint8_t* at = in.data();
  TILEKV_CHECK(in.size() == out.size() * DTypeBytes(dtype));
  switch (dtype) {
    case DType::kF64:
      if (!out.empty()) std::memcpy(out.data(), at, in.size());
      return;
    case DType::kF32:
      for (size_t i = 0; i < out.size(); ++i) out[i] = Load<float>(at + i * 4);
      return;
    case DType::kBF16:
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = std::bit_cast<float>(static_cast<uint32_t>(Load<uint16_t>(at + i * 2)) << 16);
      }
      return;
    default:
      break;
  }
  const std::vector<float>& table = TableOf(dtype);
  if (DTypeBytes(dtype) == 1) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = table[at[i]];
  } else {
    for (size_t i = 0; i < out.size(); ++i) out[i] = table[Load<uint16_t>(at + i * 2)];
  }
}

void DecodeIntegers(DType dtype, Bytes in, std::span<Number> out) {
  TILEKV_CHECK(in.size() == out.size() * DTypeBytes(dtype));
  switch (dtype) {
    case DType::kBool:
      for (size_t i = 0; i < out.size(); ++i) out[i] = {false, in[i] != 0, 0};
      return;
    case DType::kU8:
      return DecodeIntegersAs<uint8_t>(in, out);
    case DType::kI8:
      return DecodeIntegersAs<int8_t>(in, out);
    case DType::kU16:
      return DecodeIntegersAs<uint16_t>(in, out);
    case DType::kI16:
      return DecodeIntegersAs<int16_t>(in, out);
    case DType::kU32:
      return DecodeIntegersAs<uint32_t>(in, out);
    case DType::kI32:
      return DecodeIntegersAs<int32_t>(in, out);
    case DType::kU64:
      return DecodeIntegersAs<uint64_t>(in, out);
    default:
      TILEKV_CHECK(dtype == DType::kI64);
      return DecodeIntegersAs<int64_t>(in, out);
  }
}

uint64_t EncodeMagnitude(const FloatFormat& format, const Number& number) {
  if (number.mantissa == 0) return 0;
  const int precision = format.mantissa_bits;
  const int top = number.exponent + 63 - std::countl_zero(number.mantissa);
  // The power of two of the last place: fixed below the normal numbers.
  const int last = std::max(top, 1 - format.bias) - precision;
  const int shift = last - number.exponent;
  uint64_t rounded = 0;
  if (shift <= 0) {
    rounded = number.mantissa << -shift;
  } else if (shift <= 64) {
    const unsigned __int128 wide = number.mantissa;
    const unsigned __int128 half = static_cast<unsigned __int128>(1) << (shift - 1);
    const unsigned __int128 rest = wide & (2 * half - 1);
    rounded = static_cast<uint64_t>(wide >> shift);
    if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
  }
  const uint64_t hidden = uint64_t{1} << precision;
  if (rounded < hidden) return rounded;
  // A carry out of the mantissa goes on into the exponent.
  return (static_cast<uint64_t>(last + precision + format.bias) << precision) + (rounded - hidden);
}

uint64_t NanBits(const FloatFormat& format, bool negative) {
  if (format.specials == Specials::kNoSign) return SignBit(format);
  uint64_t bits = (uint64_t{1} << (format.exponent_bits + format.mantissa_bits)) - 1;
  if (format.specials == Specials::kIeee) {
    bits = format.largest() + 1 + (uint64_t{1} << (format.mantissa_bits - 1));
  }
  return negative ? bits | SignBit(format) : bits;
}

}  // namespace tilekv
