// What names refer to, at one state of the catalog: for the collector, usage, referrers and fsck.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "kvstore/node/node_context.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {

struct VersionEntry {
  std::string ns;
  std::string name;
  Revision mod;
  v1::VersionRecord record;
};
struct ValueEntry {
  std::string key;
  Revision mod;
  v1::ValueRecord record;
};

// Entries in order of key, until `visit` gives an error. DATA_LOSS names a record that cannot be
// parsed.
absl::Status VisitEntries(CatalogSnapshot& snapshot, const std::string& start,
                          const std::string& end,
                          const std::function<absl::Status(const CatalogEntry&)>& visit);
absl::Status VisitVersions(CatalogSnapshot& snapshot,
                           const std::function<absl::Status(const VersionEntry&)>& visit);
absl::Status VisitAllValues(CatalogSnapshot& snapshot,
                            const std::function<absl::Status(const ValueEntry&)>& visit);
// Values that have an object; the others need none.
absl::Status VisitValueObjects(CatalogSnapshot& snapshot,
                               const std::function<absl::Status(const ValueEntry&)>& visit);

// "default/gpt@3", "key 'k'": whose object it is, for messages.
std::string WhoseText(const VersionEntry& version);
std::string WhoseText(const ValueEntry& value);

}  // namespace tilekv
