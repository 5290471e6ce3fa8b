// Where runs of named things end: after names whose hash says so, so that a change in one place
// does not move the ends of all later runs.
#pragma once

#include <string_view>

#include "kvstore/base/bytes.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {

// Whether the low `bits` (1 to 8) of the first byte of BLAKE3-256(name) are zero: one name in
// 2^bits.
inline bool NameEndsRun(std::string_view name, int bits) {
  return (Blake3(AsBytes(name))[0] & ((1 << bits) - 1)) == 0;
}

}  // namespace tilekv
