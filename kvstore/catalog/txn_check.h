// What every catalog of one process does alike with a transaction: checks its form, evaluates its
// compares, makes the first record.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/random.h"
#include "kvstore/catalog/catalog.h"

namespace tilekv {

struct KeyRevisions {
  Revision create;
  Revision mod;
};
// None: the key is absent.
using RevisionLookup =
    std::function<absl::StatusOr<std::optional<KeyRevisions>>(const std::string& key)>;

// INVALID_ARGUMENT: an empty key, a key written twice.
absl::Status CheckTxn(const CatalogTxn& txn);
// INVALID_ARGUMENT: no end, or a limit of 0.
absl::Status CheckListArguments(const std::string& end, size_t limit);
// The first compare that does not hold; none: all hold.
absl::StatusOr<std::optional<size_t>> FindFailedCompare(const CatalogTxn& txn,
                                                        const RevisionLookup& lookup);

inline constexpr uint16_t kFirstEpoch = 1;
// The value of `line` in a new catalog.
std::string NewLineRecord(Random& random);

}  // namespace tilekv
