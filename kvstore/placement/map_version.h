// Which state of the cluster map is meant. Immutable values.
#pragma once

#include <compare>
#include <cstdint>

namespace tilekv {

// (epoch, number) in 64 bits, 16 and 48, compared as one number. The epoch is that of the catalog's
// line, so that no map of an older line is ever newer.
struct MapVersion {
  uint64_t value = 0;  // 0: no map, before every one

  static constexpr MapVersion Of(uint16_t epoch, uint64_t number) {
    return {uint64_t{epoch} << 48 | (number & ((uint64_t{1} << 48) - 1))};
  }
  constexpr uint16_t epoch() const { return static_cast<uint16_t>(value >> 48); }
  constexpr uint64_t number() const { return value & ((uint64_t{1} << 48) - 1); }
  constexpr MapVersion Next() const { return {value + 1}; }
  friend constexpr auto operator<=>(const MapVersion&, const MapVersion&) = default;
};

// What the question of a drop compares: two nodes with equal values compute the same owners of
// every partition.
struct PlacementVersion {
  MapVersion version;  // of the map in which what decides placement changed last
  uint64_t hash = 0;   // of what decides placement

  friend constexpr bool operator==(const PlacementVersion&, const PlacementVersion&) = default;
};

}  // namespace tilekv
