// What a watch on a range of a catalog's keys tells.
//
// It begins with everything in the range, then tells each change; after every loss of its
// connection it begins with everything again. So its user sees every key's newest state, not every
// state.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kvstore/catalog/catalog.h"

namespace tilekv {

struct CatalogUpdate {
  bool everything = false;  // what is in the range and not among the entries is not there
  std::vector<CatalogEntry> entries;
  std::vector<std::string> deleted;
  Revision revision;  // up to which all is told
};
// Called by one thread, in order; must not wait long. Never after the watch has gone.
using CatalogUpdateCallback = std::function<void(const CatalogUpdate&)>;

class CatalogWatch {
 public:
  virtual ~CatalogWatch() = default;  // not from the callback
};

}  // namespace tilekv
