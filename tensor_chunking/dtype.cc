#include "tensor_chunking/dtype.h"

#include <array>
#include <string>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  uint32_t bits;
  std::string_view numpy;
};

// Ascending writer order.
constexpr std::array kRows = {
    Row{DType::kBool, "BOOL", 8, "|b1"},
    Row{DType::kF4, "F4", 4, ""},
    Row{DType::kF6E2M3, "F6_E2M3", 6, ""},
    Row{DType::kF6E3M2, "F6_E3M2", 6, ""},
    Row{DType::kU8, "U8", 8, "|u1"},
    Row{DType::kI8, "I8", 8, "|i1"},
    Row{DType::kF8E5M2, "F8_E5M2", 8, ""},
    Row{DType::kF8E4M3, "F8_E4M3", 8, ""},
    Row{DType::kF8E8M0, "F8_E8M0", 8, ""},
    Row{DType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8, ""},
    Row{DType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8, ""},
    Row{DType::kI16, "I16", 16, "<i2"},
    Row{DType::kU16, "U16", 16, "<u2"},
    Row{DType::kF16, "F16", 16, "<f2"},
    Row{DType::kBF16, "BF16", 16, ""},
    Row{DType::kI32, "I32", 32, "<i4"},
    Row{DType::kU32, "U32", 32, "<u4"},
    Row{DType::kF32, "F32", 32, "<f4"},
    Row{DType::kC64, "C64", 64, "<c8"},
    Row{DType::kF64, "F64", 64, "<f8"},
    Row{DType::kI64, "I64", 64, "<i8"},
    Row{DType::kU64, "U64", 64, "<u8"},
};

constexpr bool CodesFollowTheTable() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].dtype) != i + 1) return false;
  }
  return true;
}
static_assert(CodesFollowTheTable(), "a dtype's row is found by its code");

constexpr auto kAll = [] {
  std::array<DType, kRows.size()> all{};
  for (size_t i = 0; i < all.size(); ++i) all[i] = kRows[i].dtype;
  return all;
}();

const Row& RowOf(DType dtype) {
  size_t index = static_cast<size_t>(dtype) - 1;
  TILEKV_CHECK(index < kRows.size());
  return kRows[index];
}

}  // namespace

std::span<const DType> AllDTypes() { return kAll; }
std::string_view DTypeName(DType dtype) { return RowOf(dtype).name; }
uint32_t DTypeBits(DType dtype) { return RowOf(dtype).bits; }
int DTypeWriterOrder(DType dtype) { return static_cast<int>(&RowOf(dtype) - kRows.data()); }
std::string_view DTypeNumpy(DType dtype) { return RowOf(dtype).numpy; }

uint8_t DTypeFloatBytes(DType dtype) {
  std::string_view name = DTypeName(dtype);
  if (dtype == DType::kC64) return 4;
  bool is_float = name.starts_with('F') || dtype == DType::kBF16;
  return is_float ? static_cast<uint8_t>(DTypeBytes(dtype)) : uint8_t{0};
}

absl::StatusOr<DType> ParseDType(std::string_view name) {
  std::string known;
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
    known += known.empty() ? "" : ", ";
    known += row.name;
  }
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("dtype '{}' is not known; the dtypes are {}", Printable(name), known));
}

absl::StatusOr<DType> DTypeFromNumpy(std::string_view descr) {
  if (!descr.empty()) {
    for (const Row& row : kRows) {
      if (row.numpy == descr) return row.dtype;
    }
  }
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("NumPy's type '{}' has no dtype here", Printable(descr)));
}

bool DTypeFromCode(uint8_t code, DType& dtype) {
  if (code < 1 || code > kRows.size()) return false;
  dtype = kRows[code - 1].dtype;
  return true;
}

}  // namespace tilekv
