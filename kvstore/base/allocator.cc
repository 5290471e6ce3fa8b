#include "kvstore/base/allocator.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tilekv {

void TuneAllocator() {
#ifdef __GLIBC__
  constexpr int kMiBytes = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMiBytes);  // the greatest that glibc takes
  mallopt(M_TRIM_THRESHOLD, 1024 * kMiBytes);
  mallopt(M_TOP_PAD, 64 * kMiBytes);
#endif
}

}  // namespace tilekv
