#include "kvstore/node/models.h"

#include <algorithm>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/catalog/keys.h"
#include "kvstore/node/tree_walk.h"
#include "kvstore/object/object_read.h"
#include "kvstore/wire/object_messages.h"

namespace tilekv {
namespace {

constexpr uint64_t kReplyBytes = 1 * kMiB;  // of one page of versions or models
constexpr uint64_t kRootInReplyBytes = 1 * kMiB;

absl::Status CheckModel(const std::string& ns, const std::string& name) {
  TILEKV_RETURN_IF_ERROR(CheckName("namespace", ns));
  return CheckName("model", name);
}

std::string RootHex(const v1::VersionRecord& record) {
  return HexEncode(AsBytes(record.root().id()));
}

}  // namespace

absl::StatusOr<v1::ModelInfo> Models::Describe(const std::string& ns, const std::string& name,
                                               const HeadState& head) {
  v1::ModelInfo info;
  info.set_ns(ns);
  info.set_name(name);
  info.set_live_versions(head.head.live_versions());
  info.set_deleted_versions(head.head.deleted_versions());
  if (head.head.latest() == 0) return info;
  absl::StatusOr<std::optional<VersionState>> latest =
      ReadVersion(node_, ns, name, head.head.latest());
  v1::VersionRecord record;
  if (latest.ok()) {
    // Changed between the two reads: the listing has it as it was.
    if (!latest->has_value()) return info;
    record = std::move((*latest)->record);
  } else if (GetReason(latest.status()) == Reason::kDataLoss) {
    // One damaged record does not hide the other models; resolving this one tells.
    record.set_number(head.head.latest());
  } else {
    return latest.status();
  }
  TILEKV_ASSIGN_OR_RETURN(*info.mutable_latest(), MakeVersionInfo(node_, ns, name, head, record));
  return info;
}

absl::StatusOr<v1::ListModelsResponse> Models::List(const v1::ListModelsRequest& request) {
  size_t limit = kMaxListPageEntries;
  if (request.limit() != 0) limit = std::min<size_t>(limit, request.limit());
  KeyRange range = HeadRange(request.prefix(), request.after());
  v1::ListModelsResponse response;
  uint64_t bytes = 0;
  bool more = range.start < range.end;
  while (more) {
    TILEKV_ASSIGN_OR_RETURN(CatalogPage page,
                            node_.catalog.List(range.start, range.end, kMaxListPageEntries));
    for (const CatalogEntry& entry : page.entries) {
      HeadState head{true, {}, entry.mod_revision};
      std::optional<ModelKeyParts> parts = ParseModelKey(entry.key);
      if (!parts || !head.head.ParseFromString(entry.value)) {
        return MakeError(Reason::kDataLoss,
                         fmt::format("the catalog's record '{}' is damaged", Printable(entry.key)));
      }
      if (head.head.latest() == 0 && !request.with_deleted()) continue;
      if (response.models_size() == static_cast<int>(limit) || bytes > kReplyBytes) {
        response.set_more(true);
        return response;
      }
      TILEKV_ASSIGN_OR_RETURN(*response.add_models(), Describe(parts->ns, parts->name, head));
      bytes += response.models(response.models_size() - 1).ByteSizeLong();
    }
    more = page.more;
    if (more) range.start = page.entries.back().key + '\0';
  }
  return response;
}

absl::StatusOr<std::optional<v1::VersionRecord>> Models::SelectByDigest(const std::string& ns,
                                                                        const std::string& name,
                                                                        const HeadState& head,
                                                                        const std::string& digits,
                                                                        bool with_deleted) {
  std::optional<v1::VersionRecord> chosen;
  std::optional<v1::VersionRecord> other;
  TILEKV_RETURN_IF_ERROR(
      VisitVersionsDown(node_, ns, name, head, 0, [&](const VersionState& version) {
        if (!version.live() && !with_deleted) return true;
        if (RootHex(version.record).rfind(digits, 0) != 0) return true;
        if (!chosen) {
          chosen = version.record;  // of several with one root the newest
        } else if (chosen->root().id() != version.record.root().id()) {
          other = version.record;
        }
        return !other.has_value();
      }));
  if (!other) return chosen;
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("b3:{} is the beginning of two digests of {}: version {} is b3:{}, version {} is "
                  "b3:{}",
                  digits, ModelText(ns, name), chosen->number(), RootHex(*chosen), other->number(),
                  RootHex(*other)));
}

absl::StatusOr<std::optional<v1::VersionRecord>> Models::Select(const std::string& ns,
                                                                const std::string& name,
                                                                const HeadState& head,
                                                                const VersionSelector& selector,
                                                                bool with_deleted) {
  uint64_t number = 0;
  switch (selector.kind) {
    case VersionKind::kDigest:
      return SelectByDigest(ns, name, head, selector.text, with_deleted);
    case VersionKind::kLatest:
      number = head.head.latest();
      break;
    case VersionKind::kNumber:
      number = selector.number;
      break;
    case VersionKind::kTag: {
      TILEKV_ASSIGN_OR_RETURN(std::optional<CatalogEntry> entry,
                              node_.catalog.Get(TagKey(ns, name, selector.text)));
      v1::TagRecord tag;
      if (entry && !tag.ParseFromString(entry->value)) {
        return MakeError(Reason::kDataLoss, fmt::format("the record of tag '{}' is damaged",
                                                        Printable(selector.text)));
      }
      number = tag.number();
      break;
    }
  }
  if (number == 0) return std::nullopt;
  TILEKV_ASSIGN_OR_RETURN(std::optional<VersionState> version,
                          ReadVersion(node_, ns, name, number));
  if (!version || (!version->live() && !with_deleted)) return std::nullopt;
  return version->record;
}

absl::StatusOr<v1::ResolveVersionResponse> Models::Resolve(
    const v1::ResolveVersionRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckModel(request.ns(), request.name()));
  TILEKV_ASSIGN_OR_RETURN(VersionSelector selector, ParseVersion(request.version()));
  TILEKV_ASSIGN_OR_RETURN(HeadState head, ReadHead(node_, request.ns(), request.name()));
  v1::ResolveVersionResponse response;
  response.set_model_exists(head.exists && (head.head.latest() != 0 || request.with_deleted()));
  if (!head.exists) return response;
  TILEKV_ASSIGN_OR_RETURN(
      std::optional<v1::VersionRecord> record,
      Select(request.ns(), request.name(), head, selector, request.with_deleted()));
  if (!record) return response;
  response.set_found(true);
  TILEKV_ASSIGN_OR_RETURN(*response.mutable_version(),
                          MakeVersionInfo(node_, request.ns(), request.name(), head, *record));
  if (!request.with_root() || record->root().length() > kRootInReplyBytes) return response;
  TILEKV_ASSIGN_OR_RETURN(ObjectRef root, ObjectRefFromWire(record->root()));
  absl::StatusOr<std::shared_ptr<ObjectReader>> reader = node_.objects.Open(node_.domain, root.id);
  if (!reader.ok()) {
    return WithContext(MakeError(Reason::kDataLoss, std::string(reader.status().message())),
                       fmt::format("the manifest of {}@{}", ModelText(request.ns(), request.name()),
                                   record->number()));
  }
  TILEKV_ASSIGN_OR_RETURN(*response.mutable_root_content(),
                          ReadWholeContent(**reader, *node_.pool));
  return response;
}

absl::StatusOr<v1::ListVersionsResponse> Models::ListVersions(
    const v1::ListVersionsRequest& request) {
  TILEKV_RETURN_IF_ERROR(CheckModel(request.ns(), request.name()));
  TILEKV_ASSIGN_OR_RETURN(HeadState head, ReadHead(node_, request.ns(), request.name()));
  v1::ListVersionsResponse response;
  response.set_model_exists(head.exists);
  if (!head.exists) return response;
  size_t limit = kMaxListPageEntries;
  if (request.limit() != 0) limit = std::min<size_t>(limit, request.limit());
  TILEKV_ASSIGN_OR_RETURN(auto tags, ReadTags(node_, request.ns(), request.name()));
  uint64_t bytes = 0;
  TILEKV_RETURN_IF_ERROR(VisitVersionsDown(
      node_, request.ns(), request.name(), head, request.before(),
      [&](const VersionState& version) {
        if (!version.live() && !request.with_deleted()) return true;
        if (response.versions_size() == static_cast<int>(limit) || bytes > kReplyBytes) {
          response.set_more(true);
          return false;
        }
        v1::VersionInfo& info = *response.add_versions();
        info = MakeVersionInfo(request.ns(), request.name(), head, version.record, tags);
        bytes += info.ByteSizeLong();
        return true;
      }));
  return response;
}

}  // namespace tilekv
