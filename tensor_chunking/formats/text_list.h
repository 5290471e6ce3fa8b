// Lists in messages: the first few, and how many more there are.
#pragma once

#include <string>
#include <vector>

#include "fmt/format.h"

namespace tilekv {

inline constexpr size_t kListedInMessage = 10;

// "a, b and 7 more". The items are printable already.
inline std::string ListForMessage(const std::vector<std::string>& items) {
  std::string out;
  for (size_t i = 0; i < items.size() && i < kListedInMessage; ++i) {
    if (i > 0) out += ", ";
    out += items[i];
  }
  if (items.size() > kListedInMessage) {
    out += fmt::format(" and {} more", items.size() - kListedInMessage);
  }
  return out;
}

}  // namespace tilekv
