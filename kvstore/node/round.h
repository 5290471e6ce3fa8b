// A collector's round, as everybody knows it who deletes because of it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "kvstore/base/revision.h"
#include "kvstore/catalog/catalog.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {

struct RoundName {
  std::string id;       // 16 random bytes
  std::string line_id;  // of the catalog
  Revision snapshot;    // S: what is in use was found at it
  Revision fence;       // M: what was touched since is in use, as far as anybody can tell

  friend bool operator==(const RoundName&, const RoundName&) = default;
};

RoundName NameOfRound(const v1::RoundRecord& record);
// OK where the catalog's record, read now, is that of this very round, and the round is in force.
// VERSION_CONFLICT: it is not; nothing may be deleted because of it. CATALOG_REWOUND and other
// errors of the catalog.
absl::Status CheckRound(Catalog& catalog, const RoundName& round);

}  // namespace tilekv
