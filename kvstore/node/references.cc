#include "kvstore/node/references.h"

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/model_records.h"

namespace tilekv {
namespace {

absl::Status Damaged(const CatalogEntry& entry) {
  return MakeError(Reason::kDataLoss,
                   fmt::format("the catalog's record '{}' is damaged", Printable(entry.key)));
}

}  // namespace

absl::Status VisitEntries(CatalogSnapshot& snapshot, const std::string& start,
                          const std::string& end,
                          const std::function<absl::Status(const CatalogEntry&)>& visit) {
  std::string from = start;
  bool more = true;
  while (more) {
    TILEKV_ASSIGN_OR_RETURN(CatalogPage page, snapshot.List(from, end, kMaxListPageEntries));
    for (const CatalogEntry& entry : page.entries) TILEKV_RETURN_IF_ERROR(visit(entry));
    more = page.more;
    if (more) from = page.entries.back().key + '\0';
  }
  return absl::OkStatus();
}

absl::Status VisitVersions(CatalogSnapshot& snapshot,
                           const std::function<absl::Status(const VersionEntry&)>& visit) {
  KeyRange range = AllVersionsRange();
  return VisitEntries(snapshot, range.start, range.end, [&visit](const CatalogEntry& entry) {
    VersionEntry version;
    auto parts = ParseModelKey(entry.key);
    if (!parts || !version.record.ParseFromString(entry.value)) return Damaged(entry);
    version.ns = parts->ns;
    version.name = parts->name;
    version.mod = entry.mod_revision;
    return visit(version);
  });
}

absl::Status VisitAllValues(CatalogSnapshot& snapshot,
                            const std::function<absl::Status(const ValueEntry&)>& visit) {
  KeyRange range = ValueRange({});
  return VisitEntries(snapshot, range.start, range.end, [&visit](const CatalogEntry& entry) {
    ValueEntry value;
    if (!value.record.ParseFromString(entry.value)) return Damaged(entry);
    value.key = UserKey(entry.key);
    value.mod = entry.mod_revision;
    return visit(value);
  });
}

absl::Status VisitValueObjects(CatalogSnapshot& snapshot,
                               const std::function<absl::Status(const ValueEntry&)>& visit) {
  return VisitAllValues(snapshot, [&visit](const ValueEntry& value) {
    return value.record.has_object() ? visit(value) : absl::OkStatus();
  });
}

std::string WhoseText(const VersionEntry& version) {
  return fmt::format("{}@{}", ModelText(version.ns, version.name), version.record.number());
}

std::string WhoseText(const ValueEntry& value) {
  return fmt::format("key '{}'", Printable(value.key));
}

}  // namespace tilekv
