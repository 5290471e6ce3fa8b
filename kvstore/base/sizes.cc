#include "kvstore/base/sizes.h"

#include <array>
#include <charconv>
#include <cmath>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

struct Unit {
  const char* name;  // lower case
  double bytes;
};
constexpr std::array kUnits = {
    Unit{"", 1},      Unit{"b", 1},        Unit{"kb", 1e3}, Unit{"kib", 0x1p10},
    Unit{"mb", 1e6},  Unit{"mib", 0x1p20}, Unit{"gb", 1e9}, Unit{"gib", 0x1p30},
    Unit{"tb", 1e12}, Unit{"tib", 0x1p40},
};

std::string Format(uint64_t bytes, bool short_form) {
  static constexpr std::array kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  if (value >= 1023.95 && unit + 1 < kNames.size()) {  // would print as 1024.0
    value /= 1024;
    ++unit;
  }
  if (short_form && value == std::floor(value))
    return fmt::format("{:.0f} {}", value, kNames[unit]);
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

}  // namespace

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  auto bad = [&] {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("'{}' is not a size; write 4096, 64MiB or 5GB", Printable(text)));
  };
  size_t digits = 0;
  bool whole = true;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) || text[digits] == '.')) {
    whole = whole && text[digits] != '.';
    ++digits;
  }
  if (digits == 0) return bad();
  std::string suffix;
  for (char c : text.substr(digits)) {
    if (c != ' ') suffix.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  for (const Unit& unit : kUnits) {
    if (suffix != unit.name) continue;
    std::string_view number = text.substr(0, digits);
    if (whole) {
      uint64_t value = 0;
      auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
      uint64_t bytes = 0;
      if (error != std::errc() || end != number.data() + number.size() ||
          __builtin_mul_overflow(value, static_cast<uint64_t>(unit.bytes), &bytes)) {
        return bad();
      }
      return bytes;
    }
    double value = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    double bytes = value * unit.bytes;
    if (error != std::errc() || end != number.data() + number.size() || bytes >= 0x1p63)
      return bad();
    return static_cast<uint64_t>(std::llround(bytes));
  }
  return bad();
}

std::string FormatSize(uint64_t bytes) { return Format(bytes, false); }
std::string FormatSizeShort(uint64_t bytes) { return Format(bytes, true); }

std::string FormatCount(uint64_t count) {
  std::string digits = std::to_string(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

}  // namespace tilekv
