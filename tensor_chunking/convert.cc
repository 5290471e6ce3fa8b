#include "tensor_chunking/convert.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/elements.h"

namespace tilekv {
namespace {

constexpr size_t kBlock = 1'024;  // elements on the stack at a time

absl::Status DoesNotFit(DType to, uint64_t element, std::string value) {
  return MakeError(Reason::kInvalidArgument, fmt::format("element {} is {}, which {} cannot hold",
                                                         element, value, DTypeName(to)));
}

std::string Text(const Number& number) {
  return fmt::format("{}{}", number.negative ? "-" : "", number.mantissa);
}

void Store(uint64_t bits, uint32_t bytes, uint8_t* to) { std::memcpy(to, &bits, bytes); }

// One finite number into a floating type. False: it has no place there.
bool PutFloat(const FloatFormat& format, const Number& number, uint64_t& overflowed,
              uint64_t& bits) {
  bits = EncodeMagnitude(format, number);
  if (bits > format.largest()) {
    if (!format.has_infinity()) return false;
    bits = format.largest() + 1;
    ++overflowed;
  }
  bool signless_zero = bits == 0 && format.specials == FloatFormat::Specials::kNoSign;
  if (number.negative && !signless_zero) bits |= SignBit(format);
  return true;
}

bool PutInteger(const IntegerRange& range, const Number& number, uint64_t& bits) {
  if (number.mantissa > (number.negative ? range.most_negative : range.greatest)) return false;
  bits = number.negative ? ~number.mantissa + 1 : number.mantissa;
  return true;
}

// The integer nearest to a finite value. False beyond 64 bits.
bool RoundToInteger(double value, Number& number) {
  double rounded = std::nearbyint(value);  // to even, as no one changes the rounding mode
  if (std::fabs(rounded) >= 18446744073709551616.0) return false;
  number = {rounded < 0, static_cast<uint64_t>(std::fabs(rounded)), 0};
  return true;
}

bool PutDouble(DType to, double value, uint64_t& overflowed, uint64_t& bits) {
  const FloatFormat* format = FloatFormatOf(to);
  if (format == nullptr) {
    IntegerRange range;
    IntegerRangeOf(to, range);
    Number number;
    return std::isfinite(value) && RoundToInteger(value, number) && PutInteger(range, number, bits);
  }
  if (std::isnan(value)) {
    bits = NanBits(*format, std::signbit(value));
    return true;
  }
  if (std::isinf(value)) {
    bits = format->largest() + 1;
    if (value < 0) bits |= SignBit(*format);
    return format->has_infinity();
  }
  return PutFloat(*format, NumberOf(value), overflowed, bits);
}

bool PutNumber(DType to, const Number& number, uint64_t& overflowed, uint64_t& bits) {
  if (const FloatFormat* format = FloatFormatOf(to)) {
    return PutFloat(*format, number, overflowed, bits);
  }
  IntegerRange range;
  IntegerRangeOf(to, range);
  return PutInteger(range, number, bits);
}

}  // namespace

absl::Status ElementConverter::Check(DType from, DType to) {
  TILEKV_RETURN_IF_ERROR(CheckNumeric(from));
  TILEKV_RETURN_IF_ERROR(CheckNumeric(to));
  if (to != DType::kF8E8M0 || from == to) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   "F8_E8M0 holds powers of two only; nothing is rounded to them");
}

absl::Status ElementConverter::Convert(Bytes in, MutableBytes out, uint64_t first_element) {
  const uint32_t in_bytes = DTypeBytes(from_);
  const uint32_t out_bytes = DTypeBytes(to_);
  const uint64_t count = in.size() / in_bytes;
  TILEKV_CHECK(in.size() == count * in_bytes && out.size() == count * out_bytes);
  if (from_ == to_) {
    std::copy(in.begin(), in.end(), out.begin());
    return absl::OkStatus();
  }
  const bool floating = FloatFormatOf(from_) != nullptr;
  std::array<double, kBlock> values;
  std::array<Number, kBlock> numbers;
  for (uint64_t at = 0; at < count; at += kBlock) {
    const size_t block = std::min<uint64_t>(kBlock, count - at);
    const Bytes piece = in.subspan(at * in_bytes, block * in_bytes);
    if (floating) {
      DecodeFloats(from_, piece, std::span(values).first(block));
    } else {
      DecodeIntegers(from_, piece, std::span(numbers).first(block));
    }
    for (size_t i = 0; i < block; ++i) {
      uint64_t bits = 0;
      bool fits = floating ? PutDouble(to_, values[i], overflowed_, bits)
                           : PutNumber(to_, numbers[i], overflowed_, bits);
      if (!fits) {
        return DoesNotFit(to_, first_element + at + i,
                          floating ? fmt::format("{}", values[i]) : Text(numbers[i]));
      }
      Store(bits, out_bytes, out.data() + (at + i) * out_bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace tilekv
