// The changing half of Models: tags, deletion and its undoing.
#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/freed.h"
#include "kvstore/node/models.h"

namespace tilekv {
namespace {

absl::Status CheckModel(const std::string& ns, const std::string& name) {
  TILEKV_RETURN_IF_ERROR(CheckName("namespace", ns));
  return CheckName("model", name);
}

// Deletes a version's record, its tags with it.
void AddPurge(const std::string& ns, const std::string& name, const VersionState& version,
              const Tags& tags, CatalogTxn& txn) {
  const uint64_t number = version.record.number();
  txn.writes.push_back(CatalogWrite::Delete(VersionKey(ns, name, number)));
  if (!version.damaged) txn.writes.push_back(FreedWrite(version.record, version.create));
  for (const auto& [tag, tagged] : tags) {
    if (tagged == number) txn.writes.push_back(CatalogWrite::Delete(TagKey(ns, name, tag)));
  }
}

// The highest live number that is not in `leaving`; 0: none.
absl::StatusOr<uint64_t> LatestWithout(NodeContext& node, const std::string& ns,
                                       const std::string& name, const HeadState& head,
                                       const std::set<uint64_t>& leaving) {
  uint64_t latest = 0;
  TILEKV_RETURN_IF_ERROR(
      VisitVersionsDown(node, ns, name, head, 0, [&](const VersionState& version) {
        if (!version.live() || leaving.contains(version.record.number())) return true;
        latest = version.record.number();
        return false;
      }));
  return latest;
}

// The head's counts and its latest from the records themselves, without those of `purged`.
absl::Status CountAgain(NodeContext& node, const std::string& ns, const std::string& name,
                        const std::set<uint64_t>& purged, HeadState& head) {
  uint64_t live = 0, deleted = 0, latest = 0;
  TILEKV_RETURN_IF_ERROR(
      VisitVersionsDown(node, ns, name, head, 0, [&](const VersionState& version) {
        if (purged.contains(version.record.number())) return true;
        if (version.live() && ++live == 1) latest = version.record.number();
        if (!version.live()) ++deleted;
        return true;
      }));
  head.head.set_live_versions(live);
  head.head.set_deleted_versions(deleted);
  head.head.set_latest(latest);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::SetTagResponse> Models::SetTag(const v1::SetTagRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckModel(request.ns(), request.name()));
  TILEKV_RETURN_IF_ERROR(CheckTag(request.tag()));
  const std::string key = TagKey(request.ns(), request.name(), request.tag());
  v1::SetTagResponse response;
  auto plan = [&](HeadState&, CatalogTxn& txn) -> absl::StatusOr<bool> {
    TILEKV_ASSIGN_OR_RETURN(std::optional<VersionState> version,
                            ReadVersion(node_, request.ns(), request.name(), request.number()));
    if (!version || !version->live()) {
      return MakeError(Reason::kNotFound, fmt::format("version {} of {} {}", request.number(),
                                                      ModelText(request.ns(), request.name()),
                                                      version ? "is deleted" : "does not exist"));
    }
    TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node_.catalog.Get(key));
    v1::TagRecord tag;
    if (entry && !tag.ParseFromString(entry->value)) tag.Clear();
    response.set_number_found(tag.number());
    if (!ConditionHolds(request.if_tag_at(), tag.number())) return false;
    txn.compares.push_back(
        Compare::Mod(VersionKey(request.ns(), request.name(), request.number()), version->mod));
    tag.set_number(request.number());
    tag.set_moved_micros(node_.clock.WallMicros());
    txn.writes.push_back(CatalogWrite::Put(key, tag.SerializeAsString()));
    return true;
  };
  TILEKV_ASSIGN_OR_RETURN(bool applied,
                          ChangeModel(node_, request.ns(), request.name(), TxnPurpose::kAdd, plan));
  response.set_applied(applied);
  return response;
}

absl::StatusOr<v1::RemoveTagResponse> Models::RemoveTag(const v1::RemoveTagRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckModel(request.ns(), request.name()));
  TILEKV_RETURN_IF_ERROR(CheckTag(request.tag()));
  const std::string key = TagKey(request.ns(), request.name(), request.tag());
  auto plan = [&](HeadState&, CatalogTxn& txn) -> absl::StatusOr<bool> {
    TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry, node_.catalog.Get(key));
    if (!entry) return false;
    txn.writes.push_back(CatalogWrite::Delete(key));
    return true;
  };
  TILEKV_ASSIGN_OR_RETURN(
      bool existed, ChangeModel(node_, request.ns(), request.name(), TxnPurpose::kRemove, plan));
  v1::RemoveTagResponse response;
  response.set_existed(existed);
  return response;
}

absl::StatusOr<bool> Models::PlanDelete(const v1::DeleteVersionsRequest& request, HeadState& head,
                                        CatalogTxn& txn, v1::DeleteVersionsResponse& response) {
  const std::string &ns = request.ns(), &name = request.name();
  response.Clear();
  response.set_model_exists(head.exists);
  if (!head.exists) return false;

  std::set<uint64_t> wanted(request.numbers().begin(), request.numbers().end());
  if (request.all()) {
    TILEKV_RETURN_IF_ERROR(VisitVersionsDown(node_, ns, name, head, 0, [&](const auto& version) {
      if (version.live()) wanted.insert(version.record.number());
      return true;
    }));
  }
  TILEKV_ASSIGN_OR_RETURN(Tags tags, ReadTags(node_, ns, name));
  std::set<uint64_t> leaving;  // live ones
  bool damaged = false;        // a record of which it is not known whether it was live
  for (uint64_t number : wanted) {
    TILEKV_ASSIGN_OR_RETURN(std::optional<VersionState> version,
                            request.now() ? ReadVersionToPurge(node_, ns, name, number)
                                          : ReadVersion(node_, ns, name, number));
    if (!version || (!version->live() && !request.now())) {
      response.add_missing(number);
      continue;
    }
    v1::VersionInfo info = MakeVersionInfo(ns, name, head, version->record, tags);
    if (info.tags_size() > 0) *response.add_tagged() = info;
    if (version->damaged) {
      damaged = true;
    } else if (version->live()) {
      leaving.insert(number);
    }
    if (request.now()) {
      AddPurge(ns, name, *version, tags, txn);
      if (!version->live()) head.head.set_deleted_versions(head.head.deleted_versions() - 1);
    } else {
      version->record.set_deleted_micros(std::max<int64_t>(node_.clock.WallMicros(), 1));
      txn.writes.push_back(
          CatalogWrite::Put(VersionKey(ns, name, number), version->record.SerializeAsString()));
    }
    response.add_deleted(number);
  }
  if (response.tagged_size() > 0) response.clear_deleted();
  if (response.deleted_size() == 0) return false;
  if (damaged) {
    std::set<uint64_t> purged(response.deleted().begin(), response.deleted().end());
    TILEKV_RETURN_IF_ERROR(CountAgain(node_, ns, name, purged, head));
    return true;
  }
  if (leaving.contains(head.head.latest())) {
    TILEKV_ASSIGN_OR_RETURN(uint64_t latest, LatestWithout(node_, ns, name, head, leaving));
    head.head.set_latest(latest);
  }
  head.head.set_live_versions(head.head.live_versions() - leaving.size());
  if (!request.now()) {
    head.head.set_deleted_versions(head.head.deleted_versions() + leaving.size());
  }
  return true;
}

absl::StatusOr<v1::DeleteVersionsResponse> Models::Delete(
    const v1::DeleteVersionsRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckModel(request.ns(), request.name()));
  v1::DeleteVersionsResponse response;
  auto plan = [&](HeadState& head, CatalogTxn& txn) {
    return PlanDelete(request, head, txn, response);
  };
  TILEKV_RETURN_IF_ERROR(
      ChangeModel(node_, request.ns(), request.name(), TxnPurpose::kRemove, plan).status());
  return response;
}

absl::StatusOr<v1::UndeleteVersionResponse> Models::Undelete(
    const v1::UndeleteVersionRequest& request) {
  const std::string &ns = request.ns(), &name = request.name();
  TILEKV_RETURN_IF_ERROR(CheckModel(ns, name));
  auto plan = [&](HeadState& head, CatalogTxn& txn) -> absl::StatusOr<bool> {
    TILEKV_ASSIGN_OR_RETURN(std::optional<VersionState> version,
                            ReadVersion(node_, ns, name, request.number()));
    if (!version || version->live()) return false;
    version->record.set_deleted_micros(0);
    txn.writes.push_back(CatalogWrite::Put(VersionKey(ns, name, request.number()),
                                           version->record.SerializeAsString()));
    head.head.set_latest(std::max(head.head.latest(), request.number()));
    head.head.set_live_versions(head.head.live_versions() + 1);
    head.head.set_deleted_versions(head.head.deleted_versions() - 1);
    return true;
  };
  TILEKV_ASSIGN_OR_RETURN(bool restored, ChangeModel(node_, ns, name, TxnPurpose::kRemove, plan));
  v1::UndeleteVersionResponse response;
  response.set_restored(restored);
  return response;
}

absl::StatusOr<bool> Models::Purge(const std::string& ns, const std::string& name, uint64_t number,
                                   Revision mod) {
  auto plan = [&](HeadState& head, CatalogTxn& txn) -> absl::StatusOr<bool> {
    TILEKV_ASSIGN_OR_RETURN(std::optional<VersionState> version,
                            ReadVersion(node_, ns, name, number));
    if (!version || version->live() || version->mod != mod) return false;
    txn.compares.push_back(Compare::Mod(VersionKey(ns, name, number), mod));
    TILEKV_ASSIGN_OR_RETURN(Tags tags, ReadTags(node_, ns, name));
    AddPurge(ns, name, *version, tags, txn);
    head.head.set_deleted_versions(head.head.deleted_versions() - 1);
    return true;
  };
  return ChangeModel(node_, ns, name, TxnPurpose::kRemove, plan);
}

}  // namespace tilekv
