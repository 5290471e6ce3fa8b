// tilekv model ls, show, log, cp, tag, untag: names of versions, nothing of their content.
#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/model_listing.h"
#include "client/cli/model_removal.h"
#include "client/cli/open_model.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/random.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr size_t kCommitIdBytes = 16;
constexpr size_t kDigestDigits = 12;  // for people

std::string ShortDigest(const v1::VersionRecord& record) {
  return "b3:" + HexEncode(AsBytes(record.root().id())).substr(0, kDigestDigits);
}

// --- ls, log

Row ModelRow(const v1::ModelInfo& model) {
  const v1::VersionRecord& record = model.latest().record();
  Json json;
  json["namespace"] = model.ns();
  json["name"] = model.name();
  json["live_versions"] = model.live_versions();
  json["deleted_versions"] = model.deleted_versions();
  json["latest"] = model.has_latest() ? VersionJson(model.latest()) : Json(nullptr);
  std::string name = ModelText(model.ns(), model.name());
  std::string versions = std::to_string(model.live_versions());
  std::string deleted = std::to_string(model.deleted_versions());
  if (!model.has_latest()) return {{name, "-", versions, "-", "-", "", "", deleted, "", ""}, json};
  return {{name, fmt::format("@{}", record.number()), versions, FormatCount(record.tensor_count()),
           FormatSize(record.logical_bytes()), FormatTime(record.created_micros()),
           TagsText(model.latest()), deleted, ShortDigest(record), Printable(record.message())},
          json};
}

absl::StatusOr<int> ModelList(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  ListPrinter printer(context.out(), {{"MODEL"},
                                      {"LATEST", true},
                                      {"VERSIONS", true},
                                      {"TENSORS", true},
                                      {"SIZE", true},
                                      {"CREATED"},
                                      {"TAGS"},
                                      {"DELETED", true, true},
                                      {"DIGEST", false, true},
                                      {"MESSAGE", false, true}});
  TILEKV_RETURN_IF_ERROR(
      VisitModels(context, *store, arguments.Word(0), arguments.Has("--deleted"),
                  [&](const v1::ModelInfo& model) { return printer.Add(ModelRow(model)); }));
  TILEKV_RETURN_IF_ERROR(printer.Finish());
  return kExitDone;
}

Row LogRow(const v1::VersionInfo& version) {
  const v1::VersionRecord& record = version.record();
  std::string tags = TagsText(version);
  if (record.deleted_micros() != 0) {
    tags +=
        fmt::format("{}deleted {}", tags.empty() ? "" : ",", FormatTime(record.deleted_micros()));
  }
  return {{fmt::format("@{}", record.number()), ShortDigest(record),
           FormatTime(record.created_micros()), FormatSize(record.logical_bytes()), tags,
           Printable(record.message()),
           record.base_number() == 0 ? "" : fmt::format("@{}", record.base_number()),
           Printable(record.author())},
          VersionJson(version)};
}

absl::StatusOr<int> ModelLog(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(ModelName name, context.Model(arguments.Word(0)));
  TILEKV_RETURN_IF_ERROR(RefuseVersion(name, "log shows all versions of"));
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  v1::ListVersionsRequest request;
  request.set_ns(name.ns);
  request.set_name(name.name);
  request.set_with_deleted(arguments.Has("--deleted"));
  ListPrinter printer(context.out(), {{"VERSION", true},
                                      {"DIGEST"},
                                      {"CREATED"},
                                      {"SIZE", true},
                                      {"TAGS"},
                                      {"MESSAGE"},
                                      {"BASE", true, true},
                                      {"AUTHOR", false, true}});
  while (true) {
    TILEKV_ASSIGN_OR_RETURN(v1::ListVersionsResponse page,
                            store->node().ListVersions(request, context.call()));
    if (!page.model_exists()) {
      return MakeError(Reason::kNotFound, fmt::format("there is no model '{}'", name.ToString()));
    }
    for (const v1::VersionInfo& version : page.versions()) {
      TILEKV_RETURN_IF_ERROR(printer.Add(LogRow(version)));
    }
    if (!page.more() || page.versions().empty()) break;
    request.set_before(page.versions().rbegin()->record().number());
  }
  TILEKV_RETURN_IF_ERROR(printer.Finish("no live versions; --deleted shows the others"));
  return kExitDone;
}

// --- show

struct DTypeSum {
  uint64_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
};

std::map<std::string, DTypeSum> SumByDType(const Manifest& manifest) {
  std::map<std::string, DTypeSum> sums;
  for (const TensorEntry& tensor : manifest.tensors) {
    if (tensor.is_alias()) continue;
    DTypeSum& sum = sums[std::string(DTypeName(tensor.dtype))];
    ++sum.tensors;
    sum.elements += ProductOf(tensor.shape);
    sum.bytes += tensor.bytes();
  }
  return sums;
}

Json ShowJson(const ModelReader& reader) {
  const Manifest& manifest = reader.manifest();
  Json json = VersionJson(reader.version());
  json["dtypes"] = Json::object();
  for (const auto& [dtype, sum] : SumByDType(manifest)) {
    json["dtypes"][dtype] = {
        {"tensors", sum.tensors}, {"elements", sum.elements}, {"bytes", sum.bytes}};
  }
  json["metadata"] = Json::object();
  for (const auto& [key, value] : manifest.metadata) json["metadata"][key] = value;
  json["side_files"] = Json::array();
  for (const SideFile& file : manifest.side_files) {
    json["side_files"].push_back(
        {{"path", JsonText(file.path)}, {"bytes", file.content.length_bytes}});
  }
  return json;
}

std::string ShowText(const ModelReader& reader) {
  const v1::VersionInfo& version = reader.version();
  const v1::VersionRecord& record = version.record();
  const Manifest& manifest = reader.manifest();
  std::string out =
      fmt::format("model     {}\ndigest    b3:{}\ntags      {}\ncreated   {} by {}\n",
                  VersionText(version), HexEncode(AsBytes(record.root().id())), TagsText(version),
                  FormatTime(record.created_micros()), Printable(record.author()));
  if (!record.message().empty()) out += fmt::format("message   {}\n", Printable(record.message()));
  if (record.base_number() != 0) out += fmt::format("base      @{}\n", record.base_number());
  out += fmt::format("tensors   {}, {}\n", FormatCount(record.tensor_count()),
                     FormatSize(record.logical_bytes()));
  for (const auto& [dtype, sum] : SumByDType(manifest)) {
    out += fmt::format("          {:<8} {:>8} tensors {:>16} elements {:>12}\n", dtype,
                       FormatCount(sum.tensors), FormatCount(sum.elements), FormatSize(sum.bytes));
  }
  for (const auto& [key, value] : manifest.metadata) {
    out += fmt::format("metadata  {} = {}\n", Printable(key), Printable(value));
  }
  for (const SideFile& file : manifest.side_files) {
    out += fmt::format("file      {} ({})\n", Printable(file.path),
                       FormatSize(file.content.length_bytes));
  }
  return out;
}

absl::StatusOr<int> ModelShow(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> reader,
                          OpenModel(context, arguments.Word(0)));
  TILEKV_RETURN_IF_ERROR(context.out().is_json() ? context.out().Document(ShowJson(*reader))
                                                 : context.out().Write(ShowText(*reader)));
  return kExitDone;
}

// --- cp, mv, tag, untag

absl::StatusOr<int> ModelCopy(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(ModelName source, context.Model(arguments.Word(0)));
  TILEKV_ASSIGN_OR_RETURN(ModelName target, context.Model(arguments.Word(1)));
  TILEKV_RETURN_IF_ERROR(RefuseVersion(target, "cp makes a new version of"));
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> if_version, arguments.Number("--if-version"));
  v1::CopyVersionRequest request;
  for (const std::string& tag : arguments.Values("--tag")) {
    TILEKV_RETURN_IF_ERROR(CheckTag(tag));
    request.add_tags(tag);
  }
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::VersionInfo found, ResolveModel(context, *store, source));
  request.mutable_source()->set_ns(found.ns());
  request.mutable_source()->set_name(found.name());
  request.mutable_source()->set_number(found.record().number());
  request.set_ns(target.ns);
  request.set_name(target.name);
  request.set_commit_id(Random::System()->Bytes(kCommitIdBytes));
  request.set_message(arguments.Value("--message").value_or(found.record().message()));
  request.set_author(found.record().author());
  if (if_version.has_value()) request.mutable_if_latest()->set_version(*if_version);
  TILEKV_ASSIGN_OR_RETURN(v1::CommitResponse response,
                          store->node().CopyVersion(request, context.call()));
  if (!response.applied()) {
    return MakeError(Reason::kVersionConflict,
                     fmt::format("the latest version of '{}' is {}; nothing was copied",
                                 target.ToString(), response.latest_found()));
  }
  TILEKV_RETURN_IF_ERROR(context.Done(
      fmt::format("{} is now {} too", VersionText(found), VersionText(response.version())),
      VersionJson(response.version())));
  return kExitDone;
}

absl::StatusOr<int> ModelMove(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(ModelName source, context.Model(arguments.Word(0)));
  TILEKV_ASSIGN_OR_RETURN(ModelName target, context.Model(arguments.Word(1)));
  TILEKV_RETURN_IF_ERROR(RefuseVersion(source, "mv moves all versions of"));
  TILEKV_RETURN_IF_ERROR(RefuseVersion(target, "mv gives the name"));
  v1::MoveModelRequest request;
  request.set_ns(source.ns);
  request.set_name(source.name);
  request.set_new_ns(target.ns);
  request.set_new_name(target.name);
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::MoveModelResponse response,
                          store->node().MoveModel(request, context.call()));
  if (!response.source_exists()) {
    return MakeError(Reason::kNotFound,
                     fmt::format("model '{}' is not in this store", source.ToString()));
  }
  if (response.target_exists()) {
    return MakeError(Reason::kVersionConflict,
                     fmt::format("model '{}' has versions, perhaps deleted ones; nothing was moved",
                                 target.ToString()));
  }
  Json json;
  json["from"] = source.ToString();
  json["to"] = target.ToString();
  json["versions"] = response.versions();
  json["tags"] = response.tags();
  TILEKV_RETURN_IF_ERROR(context.Done(
      fmt::format("{} is now {}: {}, {}", source.ToString(), target.ToString(),
                  Counted(response.versions(), "version"), Counted(response.tags(), "tag")),
      json));
  return kExitDone;
}

absl::StatusOr<int> ModelTag(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(ModelName name, context.Model(arguments.Word(0)));
  const std::string tag = arguments.Word(1);
  TILEKV_RETURN_IF_ERROR(CheckTag(tag));
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> if_at, arguments.Number("--if-tag-at"));
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::VersionInfo version, ResolveModel(context, *store, name));
  v1::SetTagRequest request;
  request.set_ns(version.ns());
  request.set_name(version.name());
  request.set_tag(tag);
  request.set_number(version.record().number());
  if (if_at.has_value()) request.mutable_if_tag_at()->set_version(*if_at);
  TILEKV_ASSIGN_OR_RETURN(v1::SetTagResponse response,
                          store->node().SetTag(request, context.call()));
  if (!response.applied()) {
    std::string where = response.number_found() == 0
                            ? "there is no such tag"
                            : fmt::format("it is at version {}", response.number_found());
    return MakeError(Reason::kVersionConflict,
                     fmt::format("tag '{}' was not moved: {}", tag, where));
  }
  Json json;
  json["model"] = ModelText(version.ns(), version.name());
  json["tag"] = tag;
  json["version"] = version.record().number();
  TILEKV_RETURN_IF_ERROR(
      context.Done(fmt::format("'{}' is at {}", tag, VersionText(version)), json));
  return kExitDone;
}

absl::StatusOr<int> ModelUntag(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(ModelName name, context.Model(arguments.Word(0)));
  TILEKV_RETURN_IF_ERROR(RefuseVersion(name, "untag takes a tag from"));
  const std::string tag = arguments.Word(1);
  TILEKV_RETURN_IF_ERROR(CheckTag(tag));
  v1::RemoveTagRequest request;
  request.set_ns(name.ns);
  request.set_name(name.name);
  request.set_tag(tag);
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::RemoveTagResponse response,
                          store->node().RemoveTag(request, context.call()));
  if (!response.existed()) {
    return MakeError(Reason::kNotFound, fmt::format("'{}' has no tag '{}'", name.ToString(), tag));
  }
  Json json;
  json["model"] = name.ToString();
  json["tag"] = tag;
  json["removed"] = true;
  TILEKV_RETURN_IF_ERROR(
      context.Done(fmt::format("tag '{}' of '{}' removed", tag, name.ToString()), json));
  return kExitDone;
}

std::vector<CommandSpec> ListingSpecs() {
  return {
      {.noun = "model",
       .verb = "ls",
       .arguments = {{"PREFIX", "of names", false}},
       .summary = "list models",
       .flags = {{"--deleted", "", "", "models that have no live version too"}},
       .access = Access::kRead,
       .handler = ModelList},
      {.noun = "model",
       .verb = "show",
       .arguments = {{"MODEL", "[NS/]NAME[@VERSION]"}},
       .summary = "a version: digest, tags, dtypes, side files",
       .access = Access::kRead,
       .handler = ModelShow},
      {.noun = "model",
       .verb = "log",
       .arguments = {{"MODEL", "[NS/]NAME"}},
       .summary = "versions of a model, newest first",
       .flags = {{"--deleted", "", "", "deleted versions too"}},
       .access = Access::kRead,
       .handler = ModelLog},
  };
}

std::vector<CommandSpec> NamingSpecs() {
  return {
      {.noun = "model",
       .verb = "cp",
       .arguments = {{"A", "[NS/]NAME[@VERSION]"}, {"B", "[NS/]NAME that gets a new version"}},
       .summary = "make a version of another model from this one, without copying content",
       .flags = {{"--tag", "", "T", "a tag for the new version", true},
                 {"--message", "-m", "TEXT", "what it is (default: as the source)"},
                 {"--if-version", "", "N",
                  "only if N is B's latest version; 0: only if B has none"}},
       .access = Access::kChange,
       .handler = ModelCopy},
      {.noun = "model",
       .verb = "mv",
       .arguments = {{"A", "[NS/]NAME"}, {"B", "[NS/]NAME that has no versions"}},
       .summary = "give a model another name, or another namespace",
       .help = "All versions and tags move at once, deleted versions too; numbers stay. Who uses "
               "the old name finds nothing from then on.",
       .examples = {{"tilekv model mv llama team/llama", ""}},
       .access = Access::kChange,
       .handler = ModelMove},
      {.noun = "model",
       .verb = "tag",
       .arguments = {{"MODEL", "[NS/]NAME[@VERSION]"}, {"TAG", "begins with a letter"}},
       .summary = "name a version; a tag that exists is moved",
       .flags = {{"--if-tag-at", "", "N", "only if the tag is at version N; 0: only if it is new"}},
       .examples = {{"tilekv model tag minilm@3 prod --if-tag-at 2", ""}},
       .access = Access::kChange,
       .handler = ModelTag},
      {.noun = "model",
       .verb = "untag",
       .arguments = {{"MODEL", "[NS/]NAME"}, {"TAG", "the tag"}},
       .summary = "remove a tag; the version stays",
       .access = Access::kChange,
       .handler = ModelUntag},
  };
}

}  // namespace

std::vector<CommandSpec> ModelVersionCommandSpecs() {
  std::vector<CommandSpec> specs = ListingSpecs();
  for (std::vector<CommandSpec> part : {NamingSpecs(), ModelRemovalSpecs()}) {
    std::move(part.begin(), part.end(), std::back_inserter(specs));
  }
  return specs;
}

}  // namespace tilekv
