#include "client/cli/model_listing.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

absl::Status VisitRange(Context& context, KvStore& store, const std::string& prefix,
                        bool with_deleted,
                        const std::function<absl::Status(const v1::ModelInfo&)>& visit) {
  v1::ListModelsRequest request;
  request.set_prefix(prefix);
  request.set_with_deleted(with_deleted);
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(v1::ListModelsResponse page,
                            store.node().ListModels(request, context.call()));
    for (const v1::ModelInfo& model : page.models()) TILEKV_RETURN_IF_ERROR(visit(model));
    if (!page.more() || page.models().empty()) return absl::OkStatus();
    const v1::ModelInfo& last = *page.models().rbegin();
    request.set_after(last.ns() + "/" + last.name());
  }
}

}  // namespace

std::string ModelText(const std::string& ns, const std::string& name, uint64_t number) {
  return ModelName{.ns = ns, .name = name, .version = number == 0 ? "" : std::to_string(number)}
      .ToString();
}

std::string VersionText(const v1::VersionInfo& version) {
  return ModelText(version.ns(), version.name(), version.record().number());
}

std::string TagsText(const v1::VersionInfo& version) {
  std::string out = version.latest() ? "latest" : "";
  for (const std::string& tag : version.tags()) out += (out.empty() ? "" : ",") + tag;
  return out;
}

absl::Status VisitModels(Context& context, KvStore& store, const std::string& prefix,
                         bool with_deleted,
                         const std::function<absl::Status(const v1::ModelInfo&)>& visit) {
  if (prefix.empty() || prefix.find('/') != std::string::npos) {
    return VisitRange(context, store, prefix, with_deleted, visit);
  }
  // People do not see the default namespace, so the prefix is one of its models' names, and of
  // other namespaces.
  const std::string hidden = kDefaultNamespace;
  TILEKV_RETURN_IF_ERROR(VisitRange(context, store, hidden + "/" + prefix, with_deleted, visit));
  return VisitRange(context, store, prefix, with_deleted, [&](const v1::ModelInfo& model) {
    return model.ns() == hidden ? absl::OkStatus() : visit(model);
  });
}

absl::StatusOr<v1::VersionInfo> ResolveModel(Context& context, KvStore& store,
                                             const ModelName& name, bool with_deleted) {
  v1::ResolveVersionRequest request;
  request.set_ns(name.ns);
  request.set_name(name.name);
  request.set_version(name.version);
  request.set_with_deleted(with_deleted);
  TILEKV_ASSIGN_OR_RETURN(v1::ResolveVersionResponse response,
                          store.node().ResolveVersion(request, context.call()));
  if (response.found()) return response.version();
  ModelName bare = name;
  bare.version.clear();
  if (!response.model_exists()) {
    return MakeError(Reason::kNotFound,
                     fmt::format("there is no model '{}'; 'tilekv model ls' lists what there is",
                                 bare.ToString()));
  }
  if (name.version.empty() || name.version == "latest") {
    return MakeError(
        Reason::kNotFound,
        fmt::format("'{0}' has no live version; 'tilekv model log {0} --deleted' shows "
                    "the deleted ones",
                    bare.ToString()));
  }
  return MakeError(Reason::kNotFound,
                   fmt::format("'{0}' has no version '{1}'; 'tilekv model log {0}' lists them",
                               bare.ToString(), name.version));
}

Json VersionJson(const v1::VersionInfo& version) {
  const v1::VersionRecord& record = version.record();
  Json json;
  json["namespace"] = version.ns();
  json["name"] = version.name();
  json["version"] = record.number();
  json["digest"] = "b3:" + HexEncode(AsBytes(record.root().id()));
  json["latest"] = version.latest();
  json["tags"] = Json::array();
  for (const std::string& tag : version.tags()) json["tags"].push_back(tag);
  json["created"] = FormatTime(record.created_micros(), true);
  if (record.deleted_micros() != 0) json["deleted"] = FormatTime(record.deleted_micros(), true);
  json["tensors"] = record.tensor_count();
  json["logical_bytes"] = record.logical_bytes();
  if (record.base_number() != 0) json["base"] = record.base_number();
  json["author"] = JsonText(record.author());
  json["message"] = JsonText(record.message());
  return json;
}

}  // namespace tilekv
