// A point in the catalog's history: (epoch, catalog revision) in 64 bits, 16 and 48, compared as
// one number. The epoch grows when a lost or rewound catalog is recovered, so that nothing of an
// older line is ever newer.
#pragma once

#include <compare>
#include <cstdint>

namespace tilekv {

struct Revision {
  uint64_t value = 0;  // 0: none, before everything

  static constexpr Revision Of(uint16_t epoch, uint64_t catalog_revision) {
    return {uint64_t{epoch} << 48 | (catalog_revision & ((uint64_t{1} << 48) - 1))};
  }
  constexpr uint16_t epoch() const { return static_cast<uint16_t>(value >> 48); }
  constexpr uint64_t catalog_revision() const { return value & ((uint64_t{1} << 48) - 1); }
  constexpr Revision Next() const { return {value + 1}; }
  friend constexpr auto operator<=>(const Revision&, const Revision&) = default;
};

}  // namespace tilekv
