// Bytes that stay where they are for as long as their owner is held: given to several users without
// a copy for each.
#pragma once

#include <memory>

#include "kvstore/base/bytes.h"

namespace tilekv {

struct SharedBytes {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};

}  // namespace tilekv
