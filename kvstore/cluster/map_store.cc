#include "kvstore/cluster/map_store.h"

#include <utility>

#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {
namespace {

// Of an edit that loses against others each time. Maps change seldom: more is no accident.
constexpr int kMostTries = 100;

absl::Status OtherLine() {
  return MakeError(Reason::kCatalogRewound,
                   "the catalog is on another line than when this process began: it was recovered, "
                   "or it is another one; start this process again");
}

}  // namespace

absl::StatusOr<std::unique_ptr<MapStore>> MapStore::Open(Catalog& catalog) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, catalog.Get(kLineKey));
  v1::LineRecord line;
  if (!entry || !line.ParseFromString(entry->value) || line.line_id().size() != 16) {
    return MakeError(Reason::kDataLoss, "the catalog's record of its line is gone or damaged");
  }
  return std::unique_ptr<MapStore>(new MapStore(
      catalog, entry->mod_revision, static_cast<uint16_t>(line.epoch()), line.line_id()));
}

absl::StatusOr<StoredMap> MapStore::FromEntry(const CatalogEntry& entry) {
  TILEKV_ASSIGN_OR_RETURN(ClusterMap map, ClusterMap::Parse(entry.value));
  return StoredMap{std::make_shared<const ClusterMap>(std::move(map)), entry.mod_revision};
}

absl::StatusOr<std::optional<StoredMap>> MapStore::Read() {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, catalog_.Get(kClusterMapKey));
  if (!entry) return std::nullopt;
  TILEKV_ASSIGN_OR_RETURN(StoredMap stored, FromEntry(*entry));
  return stored;
}

absl::StatusOr<bool> MapStore::Write(Compare compare, const ClusterMap& map) {
  CatalogTxn txn;
  txn.compares = {std::move(compare), Compare::Mod(kLineKey, line_revision_)};
  txn.writes = {CatalogWrite::Put(kClusterMapKey, map.bytes())};
  TILEKV_ASSIGN_OR_RETURN(TxnResult result, catalog_.Txn(txn));
  if (result.failed_compare == 1) return OtherLine();
  return result.applied;
}

absl::StatusOr<bool> MapStore::Create(const ClusterMap& map) {
  return Write(Compare::Absent(kClusterMapKey), map);
}

absl::StatusOr<bool> MapStore::Replace(const StoredMap& seen, const ClusterMap& next) {
  return Write(Compare::Mod(kClusterMapKey, seen.revision), next);
}

absl::StatusOr<MapStore::Edited> MapStore::Edit(const MapEdit& edit) {
  for (int i = 0; i < kMostTries; ++i) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<StoredMap> seen, Read());
    if (!seen.has_value()) {
      return MakeError(Reason::kNotFound,
                       "the catalog has no cluster map; 'tilekv cluster init' makes it");
    }
    TILEKV_ASSIGN_OR_RETURN(ClusterMap next, edit(*seen->map));
    if (next == *seen->map) return Edited{*std::move(seen), false};
    TILEKV_ASSIGN_OR_RETURN(bool written, Replace(*seen, next));
    if (!written) continue;
    TILEKV_ASSIGN_OR_RETURN(std::optional<StoredMap> now, Read());
    // Another write may have followed; the map is at least this one.
    if (now.has_value()) return Edited{*std::move(now), true};
  }
  return MakeError(Reason::kOverloaded, "the cluster map changes all the time; try again");
}

}  // namespace tilekv
