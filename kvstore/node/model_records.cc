#include "kvstore/node/model_records.h"

#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"

namespace tilekv {
namespace {

template <typename Record>
absl::StatusOr<Record> ParseRecord(const CatalogEntry& entry) {
  Record record;
  if (record.ParseFromString(entry.value)) return record;
  return MakeError(Reason::kDataLoss,
                   fmt::format("the catalog's record '{}' is damaged", Printable(entry.key)));
}

absl::StatusOr<VersionState> ToVersion(const CatalogEntry& entry) {
  VersionState state;
  TILEKV_ASSIGN_OR_RETURN(state.record, ParseRecord<v1::VersionRecord>(entry));
  state.create = entry.create_revision;
  state.mod = entry.mod_revision;
  return state;
}

}  // namespace

absl::StatusOr<HeadState> ReadHead(NodeContext& node, const std::string& ns,
                                   const std::string& name) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node.catalog.Get(HeadKey(ns, name)));
  HeadState state;
  if (!entry) return state;
  state.exists = true;
  TILEKV_ASSIGN_OR_RETURN(state.head, ParseRecord<v1::ModelHead>(*entry));
  state.mod = entry->mod_revision;
  return state;
}

absl::StatusOr<std::optional<VersionState>> ReadVersion(NodeContext& node, const std::string& ns,
                                                        const std::string& name, uint64_t number) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry,
                          node.catalog.Get(VersionKey(ns, name, number)));
  if (!entry) return std::nullopt;
  TILEKV_ASSIGN_OR_RETURN(VersionState state, ToVersion(*entry));
  return state;
}

absl::StatusOr<std::optional<VersionState>> ReadVersionToPurge(NodeContext& node,
                                                               const std::string& ns,
                                                               const std::string& name,
                                                               uint64_t number) {
  absl::StatusOr<std::optional<VersionState>> state = ReadVersion(node, ns, name, number);
  if (state.ok() || GetReason(state.status()) != Reason::kDataLoss) return state;
  VersionState damaged;
  damaged.record.set_number(number);
  damaged.damaged = true;
  return damaged;
}

absl::Status VisitVersionsDown(NodeContext& node, const std::string& ns, const std::string& name,
                               const HeadState& head, uint64_t before,
                               const std::function<bool(const VersionState&)>& visit) {
  uint64_t end = head.head.next_version();
  if (before != 0) end = std::min(end, before);
  // A catalog lists upwards only: windows of numbers, from the top. The first is small, since most
  // look for the newest version only.
  uint64_t window = 8;
  while (end > 1) {
    uint64_t from = end > window ? end - window : 1;
    window = std::min<uint64_t>(4 * window, kMaxListPageEntries);
    KeyRange range = VersionRange(ns, name, from, end);
    TILEKV_ASSIGN_OR_RETURN(CatalogPage page,
                            node.catalog.List(range.start, range.end, kMaxListPageEntries));
    for (auto entry = page.entries.rbegin(); entry != page.entries.rend(); ++entry) {
      absl::StatusOr<VersionState> state = ToVersion(*entry);
      if (!state.ok()) continue;
      if (!visit(*state)) return absl::OkStatus();
    }
    end = from;
  }
  return absl::OkStatus();
}

absl::StatusOr<Tags> ReadTags(NodeContext& node, const std::string& ns, const std::string& name) {
  Tags tags;
  KeyRange range = TagRange(ns, name);
  bool more = true;
  while (more) {
    TILEKV_ASSIGN_OR_RETURN(CatalogPage page,
                            node.catalog.List(range.start, range.end, kMaxListPageEntries));
    for (const CatalogEntry& entry : page.entries) {
      TILEKV_ASSIGN_OR_RETURN(v1::TagRecord record, ParseRecord<v1::TagRecord>(entry));
      if (auto parts = ParseModelKey(entry.key)) tags.emplace_back(parts->last, record.number());
    }
    more = page.more;
    if (more) range.start = page.entries.back().key + '\0';
  }
  return tags;
}

bool ConditionHolds(const v1::Condition& condition, uint64_t found) {
  switch (condition.of_case()) {
    case v1::Condition::kAbsent:
      return !condition.absent() || found == 0;
    case v1::Condition::kVersion:
      return condition.version() == found;
    case v1::Condition::OF_NOT_SET:
      break;
  }
  return true;
}

v1::VersionInfo MakeVersionInfo(const std::string& ns, const std::string& name,
                                const HeadState& head, const v1::VersionRecord& record,
                                const Tags& tags) {
  v1::VersionInfo info;
  info.set_ns(ns);
  info.set_name(name);
  *info.mutable_record() = record;
  info.set_latest(record.number() == head.head.latest());
  for (const auto& [tag, number] : tags) {
    if (number == record.number()) info.add_tags(tag);
  }
  return info;
}

absl::StatusOr<v1::VersionInfo> MakeVersionInfo(NodeContext& node, const std::string& ns,
                                                const std::string& name, const HeadState& head,
                                                const v1::VersionRecord& record) {
  TILEKV_ASSIGN_OR_RETURN(Tags tags, ReadTags(node, ns, name));
  return MakeVersionInfo(ns, name, head, record, tags);
}

std::string ModelText(const std::string& ns, const std::string& name) {
  return fmt::format("{}/{}", Printable(ns), Printable(name));
}

void AddHead(CatalogTxn& txn, const std::string& ns, const std::string& name,
             const HeadState& head) {
  std::string key = HeadKey(ns, name);
  txn.compares.push_back(Compare::Mod(key, head.mod));
  txn.writes.push_back(CatalogWrite::Put(std::move(key), head.head.SerializeAsString()));
}

absl::Status TooManyTries(std::string_view what) {
  return MakeError(Reason::kOverloaded,
                   fmt::format("{}: others wrote first {} times in a row; try again later", what,
                               kMaxTransactionTries));
}

absl::StatusOr<bool> ChangeModel(NodeContext& node, const std::string& ns, const std::string& name,
                                 TxnPurpose purpose, const ModelPlan& plan) {
  for (int tries = 0; tries < kMaxTransactionTries; ++tries) {
    TILEKV_ASSIGN_OR_RETURN(HeadState head, ReadHead(node, ns, name));
    CatalogTxn txn;
    TILEKV_ASSIGN_OR_RETURN(bool wanted, plan(head, txn));
    if (!wanted) return false;
    AddHead(txn, ns, name, head);
    TILEKV_CRASH_POINT("model.before_transaction");
    TILEKV_ASSIGN_OR_RETURN(TxnResult result, node.Txn(std::move(txn), purpose));
    TILEKV_CRASH_POINT("model.after_transaction");
    if (result.applied) return true;
  }
  return TooManyTries(fmt::format("model {}", ModelText(ns, name)));
}

}  // namespace tilekv
