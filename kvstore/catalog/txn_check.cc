#include "kvstore/catalog/txn_check.h"

#include <set>
#include <string_view>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tilekv/v1/records.pb.h"

namespace tilekv {
namespace {

constexpr char kCompactedUrl[] = "tilekv.v1/compacted";

}  // namespace

bool IsCompacted(const absl::Status& status) {
  return status.GetPayload(kCompactedUrl).has_value();
}

absl::Status CompactedError(Revision revision) {
  absl::Status status =
      MakeError(Reason::kOverloaded,
                fmt::format("the catalog keeps its state at revision {} no more, since reading it "
                            "took long; read again from the beginning",
                            revision.catalog_revision()));
  status.SetPayload(kCompactedUrl, absl::Cord());
  return status;
}

absl::Status CheckTxn(const CatalogTxn& txn) {
  std::set<std::string_view> written;
  for (const CatalogWrite& write : txn.writes) {
    if (write.key.empty()) return MakeError(Reason::kInvalidArgument, "a catalog key is empty");
    if (!written.insert(write.key).second) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("catalog key '{}' is written twice in one transaction",
                                   Printable(write.key)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckListArguments(const std::string& end, size_t limit) {
  if (end.empty() || limit == 0) {
    return MakeError(Reason::kInvalidArgument, "a catalog listing needs an end and a limit");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<size_t>> FindFailedCompare(const CatalogTxn& txn,
                                                        const RevisionLookup& lookup) {
  for (size_t i = 0; i < txn.compares.size(); ++i) {
    const Compare& compare = txn.compares[i];
    TILEKV_ASSIGN_OR_RETURN(std::optional<KeyRevisions> found, lookup(compare.key));
    bool holds = false;
    switch (compare.kind) {
      case Compare::Kind::kAbsent:
        holds = !found;
        break;
      case Compare::Kind::kExists:
        holds = found.has_value();
        break;
      case Compare::Kind::kModRevision:
        holds = found && found->mod == compare.revision;
        break;
      case Compare::Kind::kCreateRevision:
        holds = found && found->create == compare.revision;
        break;
    }
    if (!holds) return i;
  }
  return std::nullopt;
}

std::string NewLineRecord(Random& random) {
  v1::LineRecord line;
  line.set_epoch(kFirstEpoch);
  line.set_line_id(random.Bytes(16));
  return line.SerializeAsString();
}

}  // namespace tilekv
