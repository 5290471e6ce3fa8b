#include "kvstore/object/byte_planes.h"

#include <bit>
#include <cstring>

#include "kvstore/base/status.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tilekv {
namespace {

using Planes = std::array<uint8_t*, kMaxPlaneWidth>;
using ConstPlanes = std::array<const uint8_t*, kMaxPlaneWidth>;

// Elements [first, end), one by one: what vectors leave over, or everything.
template <typename T>
void SplitElements(const uint8_t* content, uint64_t first, uint64_t end, const Planes& planes) {
  for (uint64_t i = first; i < end; ++i) {
    T value = std::rotl(LoadLe<T>(content + i * sizeof(T)), 1);
    for (size_t p = 0; p < sizeof(T); ++p) {
      planes[p][i] = static_cast<uint8_t>(value >> (8 * (sizeof(T) - 1 - p)));
    }
  }
}

template <typename T>
void MergeElements(const ConstPlanes& planes, uint64_t first, uint64_t end, uint8_t* content) {
  for (uint64_t i = first; i < end; ++i) {
    T value = 0;
    for (size_t p = 0; p < sizeof(T); ++p) value = static_cast<T>(value << 8 | planes[p][i]);
    StoreLe(content + i * sizeof(T), std::rotr(value, 1));
  }
}

#if defined(__SSE2__)

template <typename T>
__m128i RotateLeft(__m128i v) {
  if constexpr (sizeof(T) == 2) {
    return _mm_or_si128(_mm_slli_epi16(v, 1), _mm_srli_epi16(v, 15));
  } else if constexpr (sizeof(T) == 4) {
    return _mm_or_si128(_mm_slli_epi32(v, 1), _mm_srli_epi32(v, 31));
  } else {
    return _mm_or_si128(_mm_slli_epi64(v, 1), _mm_srli_epi64(v, 63));
  }
}

template <typename T>
__m128i RotateRight(__m128i v) {
  if constexpr (sizeof(T) == 2) {
    return _mm_or_si128(_mm_srli_epi16(v, 1), _mm_slli_epi16(v, 15));
  } else if constexpr (sizeof(T) == 4) {
    return _mm_or_si128(_mm_srli_epi32(v, 1), _mm_slli_epi32(v, 31));
  } else {
    return _mm_or_si128(_mm_srli_epi64(v, 1), _mm_slli_epi64(v, 63));
  }
}

// 16 elements fill as many vectors as an element has bytes.
constexpr uint64_t kStep = 16;

// Each round parts the even bytes of the sequence from the odd ones; after log2(W) rounds the W
// vectors are planes, by the bits of the byte's place read backwards: with W = 4 the rounds give
// bytes 0 2 | 1 3, then 0 | 2 | 1 | 3.
template <size_t W>
void PartBytes(__m128i (&v)[W]) {
  const __m128i low = _mm_set1_epi16(0xff);
  for (size_t groups = 1; groups < W; groups *= 2) {
    __m128i next[W];
    const size_t size = W / groups;  // vectors of a group
    for (size_t g = 0; g < groups; ++g) {
      for (size_t i = 0; i < size / 2; ++i) {
        __m128i a = v[g * size + 2 * i];
        __m128i b = v[g * size + 2 * i + 1];
        next[g * size + i] = _mm_packus_epi16(_mm_and_si128(a, low), _mm_and_si128(b, low));
        next[g * size + size / 2 + i] =
            _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8));
      }
    }
    for (size_t i = 0; i < W; ++i) v[i] = next[i];
  }
}

// The reverse of PartBytes.
template <size_t W>
void JoinBytes(__m128i (&v)[W]) {
  for (size_t groups = W / 2; groups > 0; groups /= 2) {
    __m128i next[W];
    const size_t size = W / groups;
    for (size_t g = 0; g < groups; ++g) {
      for (size_t i = 0; i < size / 2; ++i) {
        __m128i even = v[g * size + i];
        __m128i odd = v[g * size + size / 2 + i];
        next[g * size + 2 * i] = _mm_unpacklo_epi8(even, odd);
        next[g * size + 2 * i + 1] = _mm_unpackhi_epi8(even, odd);
      }
    }
    for (size_t i = 0; i < W; ++i) v[i] = next[i];
  }
}

// The vector of PartBytes that holds the byte of this place (0: the lowest) of every element.
template <size_t W>
constexpr size_t VectorOfByte(size_t place) {
  size_t out = 0;
  for (size_t bit = 1; bit < W; bit *= 2) out = out * 2 + (place & bit ? 1 : 0);
  return out;
}

template <typename T>
uint64_t SplitVectors(const uint8_t* content, uint64_t elements, const Planes& planes) {
  constexpr size_t W = sizeof(T);
  uint64_t i = 0;
  for (; i + kStep <= elements; i += kStep) {
    __m128i v[W];
    for (size_t k = 0; k < W; ++k) {
      const uint8_t* at = content + i * W + k * sizeof(__m128i);
      v[k] = RotateLeft<T>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    }
    PartBytes(v);
    for (size_t p = 0; p < W; ++p) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(planes[p] + i), v[VectorOfByte<W>(W - 1 - p)]);
    }
  }
  return i;
}

template <typename T>
uint64_t MergeVectors(const ConstPlanes& planes, uint64_t elements, uint8_t* content) {
  constexpr size_t W = sizeof(T);
  uint64_t i = 0;
  for (; i + kStep <= elements; i += kStep) {
    __m128i v[W];
    for (size_t p = 0; p < W; ++p) {
      v[VectorOfByte<W>(W - 1 - p)] =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(planes[p] + i));
    }
    JoinBytes(v);
    for (size_t k = 0; k < W; ++k) {
      uint8_t* at = content + i * W + k * sizeof(__m128i);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(at), RotateRight<T>(v[k]));
    }
  }
  return i;
}

#else

template <typename T>
uint64_t SplitVectors(const uint8_t*, uint64_t, const Planes&) {
  return 0;
}
template <typename T>
uint64_t MergeVectors(const ConstPlanes&, uint64_t, uint8_t*) {
  return 0;
}

#endif

template <typename T>
void Split(Bytes content, const Planes& planes) {
  uint64_t elements = content.size() / sizeof(T);
  uint64_t done = SplitVectors<T>(content.data(), elements, planes);
  SplitElements<T>(content.data(), done, elements, planes);
}

template <typename T>
void Merge(const ConstPlanes& planes, MutableBytes content) {
  uint64_t elements = content.size() / sizeof(T);
  uint64_t done = MergeVectors<T>(planes, elements, content.data());
  MergeElements<T>(planes, done, elements, content.data());
}

}  // namespace

void SplitPlanes(uint8_t width, Bytes content, const Planes& planes) {
  TILEKV_CHECK(IsPlaneWidth(width) && content.size() % width == 0);
  if (content.empty()) return;
  switch (width) {
    case 2:
      return Split<uint16_t>(content, planes);
    case 4:
      return Split<uint32_t>(content, planes);
    case 8:
      return Split<uint64_t>(content, planes);
    default:
      std::memcpy(planes[0], content.data(), content.size());
  }
}

void MergePlanes(uint8_t width, const ConstPlanes& planes, MutableBytes content) {
  TILEKV_CHECK(IsPlaneWidth(width) && content.size() % width == 0);
  if (content.empty()) return;
  switch (width) {
    case 2:
      return Merge<uint16_t>(planes, content);
    case 4:
      return Merge<uint32_t>(planes, content);
    case 8:
      return Merge<uint64_t>(planes, content);
    default:
      std::memcpy(content.data(), planes[0], content.size());
  }
}

}  // namespace tilekv
