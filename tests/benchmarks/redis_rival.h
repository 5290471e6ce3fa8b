// Redis by hiredis, pipelined: the tiles of a matrix as values.
#pragma once

#include <cstdint>

#include "kvstore/base/bytes.h"

namespace tilekv::bench {

class RedisRival {
 public:
  explicit RedisRival(uint16_t port) : port_(port) {}
  void Store(Bytes content);
  // GET of all tiles, a few of them under way at a time, copied to their place in `out`.
  void Load(MutableBytes out, int connections, bool hash);

 private:
  const uint16_t port_;
};

}  // namespace tilekv::bench
