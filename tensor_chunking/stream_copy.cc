#include "tensor_chunking/stream_copy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tilekv {

#if defined(__SSE2__)

namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kVector = sizeof(__m128i);

}  // namespace

void StreamCopy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  const uint64_t head = std::min(bytes, -reinterpret_cast<uintptr_t>(to) % kLine);
  if (head > 0) std::memcpy(to, from, head);
  uint64_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    __m128i line[kLine / kVector];
    std::memcpy(line, from + at, kLine);
    for (uint64_t i = 0; i < kLine / kVector; ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, line[i]);
    }
  }
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
}

void FinishStreamCopies() { _mm_sfence(); }

#else

void StreamCopy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void FinishStreamCopies() {}

#endif

bool HasMemory(const uint8_t* at) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t within = reinterpret_cast<uintptr_t>(at) % page;
  unsigned char resident = 0;
  return mincore(const_cast<uint8_t*>(at - within), 1, &resident) == 0 && (resident & 1) != 0;
}

}  // namespace tilekv
