// Reading and changing a model's records: head, versions, tags.
//
// Every transaction on a model compares its head as read and writes it, so transactions on one
// model follow one another, and a number is never used twice.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/node/node_context.h"
#include "tilekv/v1/records.pb.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {

struct HeadState {
  bool exists = false;
  v1::ModelHead head;
  Revision mod;  // 0: absent
};
struct VersionState {
  v1::VersionRecord record;
  Revision create;
  Revision mod;

  bool damaged = false;  // the record cannot be parsed; of `record` only the number is known

  bool live() const { return record.deleted_micros() == 0; }
};

absl::StatusOr<HeadState> ReadHead(NodeContext& node, const std::string& ns,
                                   const std::string& name);
absl::StatusOr<std::optional<VersionState>> ReadVersion(NodeContext& node, const std::string& ns,
                                                        const std::string& name, uint64_t number);
// The same, for a purge: of a damaged record too.
absl::StatusOr<std::optional<VersionState>> ReadVersionToPurge(NodeContext& node,
                                                               const std::string& ns,
                                                               const std::string& name,
                                                               uint64_t number);
// Versions with numbers below `before` (0: all), newest first, until `visit` returns false. Damaged
// records are passed over: fsck reports them, and a look at one by its number.
absl::Status VisitVersionsDown(NodeContext& node, const std::string& ns, const std::string& name,
                               const HeadState& head, uint64_t before,
                               const std::function<bool(const VersionState&)>& visit);
// Tags of the model, by name.
using Tags = std::vector<std::pair<std::string, uint64_t>>;
absl::StatusOr<Tags> ReadTags(NodeContext& node, const std::string& ns, const std::string& name);

// The condition against what is there, 0 meaning nothing.
bool ConditionHolds(const v1::Condition& condition, uint64_t found);
// What a client is told about a version. `tags` are all of the model's.
v1::VersionInfo MakeVersionInfo(const std::string& ns, const std::string& name,
                                const HeadState& head, const v1::VersionRecord& record,
                                const Tags& tags);
absl::StatusOr<v1::VersionInfo> MakeVersionInfo(NodeContext& node, const std::string& ns,
                                                const std::string& name, const HeadState& head,
                                                const v1::VersionRecord& record);

// "default/gpt", for messages.
std::string ModelText(const std::string& ns, const std::string& name);

// One change of a model: what `plan` makes of the head goes into one transaction; another change in
// between repeats it. `plan` changes the head in place, adds compares and writes, and returns false
// when there is nothing to change. Returns what `plan` returned last. OVERLOADED when others were
// always quicker. `purpose` as for NodeContext::Txn.
using ModelPlan = std::function<absl::StatusOr<bool>(HeadState& head, CatalogTxn& txn)>;
absl::StatusOr<bool> ChangeModel(NodeContext& node, const std::string& ns, const std::string& name,
                                 TxnPurpose purpose, const ModelPlan& plan);
// Adds the compare of the head as read and its new value.
void AddHead(CatalogTxn& txn, const std::string& ns, const std::string& name,
             const HeadState& head);
inline constexpr int kMaxTransactionTries = 1'000;
absl::Status TooManyTries(std::string_view what);

}  // namespace tilekv
