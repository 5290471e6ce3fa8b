// Elements taken apart into planes of their bytes, and put together again (docs/formats.md,
// section 3). Pure functions: no state, any thread. x86-64 uses its baseline vectors, other
// machines the portable form of the same.
#pragma once

#include <array>
#include <cstdint>

#include "kvstore/base/bytes.h"

namespace tilekv {

inline constexpr uint8_t kMaxPlaneWidth = 8;

// 1, 2, 4 or 8.
constexpr bool IsPlaneWidth(uint8_t width) {
  return width == 1 || width == 2 || width == 4 || width == 8;
}

// content.size() is a multiple of `width`; each plane (0: the highest byte) has room for one byte
// an element.
void SplitPlanes(uint8_t width, Bytes content, const std::array<uint8_t*, kMaxPlaneWidth>& planes);
// The reverse: fills all of `content`.
void MergePlanes(uint8_t width, const std::array<const uint8_t*, kMaxPlaneWidth>& planes,
                 MutableBytes content);

}  // namespace tilekv
