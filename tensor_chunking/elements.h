// Elements as numbers: what the bits of a dtype mean, and the bits of a number in a dtype.
//
// Floating types become double, which holds every one of them exactly. F4, F6 and C64 are no
// numbers here. Little-endian, as tensors are. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kvstore/base/bytes.h"
#include "tensor_chunking/dtype.h"

namespace tilekv {

// What a floating type below F64 is made of: sign, exponent, mantissa, from the top bit down.
struct FloatFormat {
  enum class Specials {
    kIeee,    // infinities and NaN
    kNoInf,   // NaN where all bits but the sign are one ("FN")
    kNoSign,  // NaN in the place of -0, no infinities ("FNUZ")
    kScale,   // powers of two without sign, zero and infinity; NaN is all ones (E8M0)
  };
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  Specials specials = Specials::kIeee;

  bool has_infinity() const { return specials == Specials::kIeee; }
  // Bits of the largest finite value.
  uint64_t largest() const;
  // The least positive value that is not subnormal.
  double least_normal() const;
};
// Null for types that are not floating, or not numbers here.
const FloatFormat* FloatFormatOf(DType dtype);

// What an integer type holds; BOOL is one of 0 and 1.
struct IntegerRange {
  bool is_signed = false;
  uint64_t greatest = 0;
  uint64_t most_negative = 0;  // its magnitude
};
// False for types that are not integers.
bool IntegerRangeOf(DType dtype, IntegerRange& range);
// Floating or integer. INVALID_ARGUMENT where it is neither.
absl::Status CheckNumeric(DType dtype);

// A number as sign, magnitude and power of two: exact for every element of every type.
struct Number {
  bool negative = false;
  uint64_t mantissa = 0;
  int exponent = 0;  // the value is mantissa * 2^exponent
};
Number NumberOf(double finite);

// Elements of a floating type; in.size() is out.size() elements.
void DecodeFloats(DType dtype, Bytes in, std::span<double> out);
// Elements of an integer type, exponents 0.
void DecodeIntegers(DType dtype, Bytes in, std::span<Number> out);

// Bits of a number in a floating type, rounded to nearest, ties to even. A number beyond the
// largest gives bits above format.largest(), without sign: the caller decides what that means. Not
// for kScale.
uint64_t EncodeMagnitude(const FloatFormat& format, const Number& number);
uint64_t SignBit(const FloatFormat& format);
// A quiet NaN.
uint64_t NanBits(const FloatFormat& format, bool negative);

}  // namespace tilekv
