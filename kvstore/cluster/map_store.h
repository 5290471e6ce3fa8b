// The cluster map's record in the catalog. Thread-safe; calls block.
//
// Every write compares the line and the map's revision as it was read: of two that change one map
// one wins, and the other begins again with the newer map.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/catalog/catalog.h"
#include "kvstore/placement/cluster_map.h"

namespace tilekv {

struct StoredMap {
  std::shared_ptr<const ClusterMap> map;
  Revision revision;  // of the record
};

class MapStore {
 public:
  // Reads which line the catalog is on. It outlives the store. DATA_LOSS when that record is gone.
  static absl::StatusOr<std::unique_ptr<MapStore>> Open(Catalog& catalog);

  const std::string& line_id() const { return line_id_; }  // 16 bytes, as the record has them
  uint16_t epoch() const { return epoch_; }

  // None: the catalog has no map yet. Errors of ClusterMap::Parse.
  absl::StatusOr<std::optional<StoredMap>> Read();
  static absl::StatusOr<StoredMap> FromEntry(const CatalogEntry& entry);
  // The first map. False: there is one.
  absl::StatusOr<bool> Create(const ClusterMap& map);
  // False: the record is another one than `seen` by now.
  absl::StatusOr<bool> Replace(const StoredMap& seen, const ClusterMap& next);

  using MapEdit = std::function<absl::StatusOr<ClusterMap>(const ClusterMap&)>;
  struct Edited {
    StoredMap stored;      // with the change
    bool changed = false;  // false: it was so already
  };
  // Reads, edits and writes, again where another write came first. The edit's error ends it.
  absl::StatusOr<Edited> Edit(const MapEdit& edit);

 private:
  MapStore(Catalog& catalog, Revision line_revision, uint16_t epoch, std::string line_id)
      : catalog_(catalog),
        line_revision_(line_revision),
        epoch_(epoch),
        line_id_(std::move(line_id)) {}
  absl::StatusOr<bool> Write(Compare compare, const ClusterMap& map);

  Catalog& catalog_;
  const Revision line_revision_;
  const uint16_t epoch_;
  const std::string line_id_;
};

}  // namespace tilekv
