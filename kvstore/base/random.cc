#include "kvstore/base/random.h"

#include <sys/random.h>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

class SystemRandom : public Random {
 public:
  uint64_t Next() override {
    uint64_t value = 0;
    TILEKV_CHECK(getrandom(&value, sizeof value, 0) == sizeof value);
    return value;
  }
};

}  // namespace

std::string Random::Bytes(size_t count) {
  std::string out;
  while (out.size() < count) {
    uint64_t value = Next();
    out.append(reinterpret_cast<const char*>(&value), std::min(sizeof value, count - out.size()));
  }
  return out;
}

Random* Random::System() {
  static SystemRandom* random = new SystemRandom;
  return random;
}

}  // namespace tilekv
