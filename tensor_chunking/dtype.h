// Types of elements: the 22 of safetensors, by name and bits. Elements are never converted, so a
// type is a size, a name and what NumPy calls it. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"

namespace tilekv {

// The values are stored in manifests (docs/formats.md, section 6): never renumber. They stand in
// the ascending order of the safetensors reference, whose writer sorts tensors by descending dtype,
// then by name; compare DTypeWriterOrder for that, not the values.
enum class DType : uint8_t {
  kBool = 1,
  kF4 = 2,
  kF6E2M3 = 3,
  kF6E3M2 = 4,
  kU8 = 5,
  kI8 = 6,
  kF8E5M2 = 7,
  kF8E4M3 = 8,
  kF8E8M0 = 9,
  kF8E4M3Fnuz = 10,
  kF8E5M2Fnuz = 11,
  kI16 = 12,
  kU16 = 13,
  kF16 = 14,
  kBF16 = 15,
  kI32 = 16,
  kU32 = 17,
  kF32 = 18,
  kC64 = 19,
  kF64 = 20,
  kI64 = 21,
  kU64 = 22,
};

// All of them, in ascending writer order.
std::span<const DType> AllDTypes();
// "F32", as safetensors spells it.
std::string_view DTypeName(DType dtype);
uint32_t DTypeBits(DType dtype);
// Of one element; 0 for dtypes below a byte.
inline uint32_t DTypeBytes(DType dtype) { return DTypeBits(dtype) / 8; }
// Bytes of its floating-point numbers, of which a complex one has two; 0 where it has none of whole
// bytes.
uint8_t DTypeFloatBytes(DType dtype);
inline bool IsSubByte(DType dtype) { return DTypeBits(dtype) < 8; }
// The reference writer puts tensors of a higher order first.
int DTypeWriterOrder(DType dtype);
// NumPy's array-interface string ("<f4", "|b1"); empty where NumPy has no such type (BF16, F8, F6,
// F4).
std::string_view DTypeNumpy(DType dtype);

// By name, case respected. INVALID_ARGUMENT names the text and lists the dtypes.
absl::StatusOr<DType> ParseDType(std::string_view name);
// From NumPy's little-endian or byte-order-free string. INVALID_ARGUMENT for one without an
// equivalent.
absl::StatusOr<DType> DTypeFromNumpy(std::string_view descr);
// From a stored code. False when there is no such dtype.
bool DTypeFromCode(uint8_t code, DType& dtype);

}  // namespace tilekv
