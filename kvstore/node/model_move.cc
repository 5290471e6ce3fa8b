// Models under another name.
//
// 1. Both heads are read. The source must have versions, the target none, deleted ones counted.
// 2. Every version's and tag's record is read, as it is: a damaged one moves too.
// 3. One transaction compares both heads as read, deletes the records under the old name and writes
//    them under the new one. Every change of a model writes its head, so none is lost between.
// 4. Both heads stay and keep the greatest next number of the two: numbers are never used twice,
//    whichever way models are moved.
// 5. What the old name needed is written down as freed: a purge under the new name says since when
//    that one needed it, which may be after the collector's last round.
// Trees of earlier commits keep the old name: it is of the past, and nothing reads it back.
#include <algorithm>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/freed.h"
#include "kvstore/node/models.h"

namespace tilekv {
namespace {

bool HasVersions(const HeadState& head) {
  return head.head.live_versions() > 0 || head.head.deleted_versions() > 0;
}

// All records in the range, each of which `new_key` gives a key. Their number.
template <typename NewKey>
absl::StatusOr<uint64_t> MoveRange(NodeContext& node, KeyRange range, const NewKey& new_key,
                                   CatalogTxn& txn) {
  uint64_t count = 0;
  bool more = true;
  while (more) {
    TILEKV_ASSIGN_OR_RETURN(CatalogPage page,
                            node.catalog.List(range.start, range.end, kMaxListPageEntries));
    for (CatalogEntry& entry : page.entries) {
      std::optional<ModelKeyParts> parts = ParseModelKey(entry.key);
      if (!parts) continue;
      v1::VersionRecord version;
      if (parts->number != 0 && version.ParseFromString(entry.value)) {
        txn.writes.push_back(FreedWrite(version, entry.create_revision));
      }
      txn.writes.push_back(CatalogWrite::Put(new_key(*parts), std::move(entry.value)));
      txn.writes.push_back(CatalogWrite::Delete(entry.key));
      ++count;
    }
    more = page.more;
    if (more) range.start = page.entries.back().key + '\0';
    if (count > kMaxMovedRecords) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("it has more than {} versions and tags; copy those that matter "
                                   "with 'tilekv model cp'",
                                   FormatCount(kMaxMovedRecords)));
    }
  }
  return count;
}

absl::Status CheckNames(const v1::MoveModelRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckName("namespace", request.ns()));
  TILEKV_RETURN_IF_ERROR(CheckName("model", request.name()));
  TILEKV_RETURN_IF_ERROR(CheckName("namespace", request.new_ns()));
  TILEKV_RETURN_IF_ERROR(CheckName("model", request.new_name()));
  if (request.ns() != request.new_ns() || request.name() != request.new_name()) {
    return absl::OkStatus();
  }
  return MakeError(Reason::kInvalidArgument, fmt::format("{} has this name already",
                                                         ModelText(request.ns(), request.name())));
}

}  // namespace

absl::StatusOr<std::optional<v1::MoveModelResponse>> Models::TryMove(
    const v1::MoveModelRequest& request) {
  TILEKV_ASSIGN_OR_RETURN(HeadState source, ReadHead(node_, request.ns(), request.name()));
  TILEKV_ASSIGN_OR_RETURN(HeadState target, ReadHead(node_, request.new_ns(), request.new_name()));
  v1::MoveModelResponse response;
  response.set_source_exists(HasVersions(source));
  response.set_target_exists(HasVersions(target));
  if (!response.source_exists() || response.target_exists()) return response;

  CatalogTxn txn;
  TILEKV_ASSIGN_OR_RETURN(uint64_t versions, MoveRange(
                                                 node_, VersionRange(request.ns(), request.name()),
                                                 [&](const ModelKeyParts& parts) {
                                                   return VersionKey(request.new_ns(),
                                                                     request.new_name(),
                                                                     parts.number);
                                                 },
                                                 txn));
  TILEKV_ASSIGN_OR_RETURN(uint64_t tags, MoveRange(
                                             node_, TagRange(request.ns(), request.name()),
                                             [&](const ModelKeyParts& parts) {
                                               return TagKey(request.new_ns(), request.new_name(),
                                                             parts.last);
                                             },
                                             txn));
  response.set_versions(versions);
  response.set_tags(tags);
  const uint64_t next = std::max(source.head.next_version(), target.head.next_version());
  const std::string incarnation =
      target.exists ? target.head.incarnation() : node_.random.Bytes(16);
  target.head = source.head;
  target.head.set_next_version(next);
  target.head.set_incarnation(incarnation);
  source.head.set_next_version(next);
  source.head.set_latest(0);
  source.head.set_live_versions(0);
  source.head.set_deleted_versions(0);
  AddHead(txn, request.ns(), request.name(), source);
  AddHead(txn, request.new_ns(), request.new_name(), target);
  TILEKV_CRASH_POINT("move.before_transaction");
  TILEKV_ASSIGN_OR_RETURN(TxnResult result, node_.Txn(std::move(txn)));
  TILEKV_CRASH_POINT("move.after_transaction");
  if (!result.applied) return std::nullopt;
  return response;
}

absl::StatusOr<v1::MoveModelResponse> Models::Move(const v1::MoveModelRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckNames(request));
  const std::string what = fmt::format("model {}", ModelText(request.ns(), request.name()));
  for (int tries = 0; tries < kMaxTransactionTries; ++tries) {
    absl::StatusOr<std::optional<v1::MoveModelResponse>> moved = TryMove(request);
    if (!moved.ok()) return WithContext(moved.status(), what);
    if (moved->has_value()) return **moved;
  }
  return TooManyTries(what);
}

}  // namespace tilekv
