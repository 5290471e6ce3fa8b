// tilekv ls, du, version.
#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/model_listing.h"
#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

Row ModelRow(const v1::ModelInfo& model) {
  const v1::VersionRecord& record = model.latest().record();
  bool live = model.has_latest();
  Json json;
  json["kind"] = "model";
  json["name"] = ModelText(model.ns(), model.name());
  json["version"] = live ? Json(record.number()) : Json(nullptr);
  json["bytes"] = record.logical_bytes();
  json["modified"] = FormatTime(record.created_micros(), true);
  return {{"model", ModelText(model.ns(), model.name()),
           live ? fmt::format("@{}", record.number()) : "-",
           live ? FormatSize(record.logical_bytes()) : "-", FormatTime(record.created_micros())},
          json};
}

Row ValueRow(const ValueInfo& info) {
  Json json;
  json["kind"] = "value";
  json["name"] = JsonText(info.key);
  json["version"] = info.version;
  json["bytes"] = info.length;
  json["modified"] = FormatTime(info.modified_micros, true);
  return {{"value", Printable(info.key), std::to_string(info.version), FormatSize(info.length),
           FormatTime(info.modified_micros)},
          json};
}

absl::StatusOr<int> ListAll(Context& context, const Arguments& arguments) {
  const std::string prefix = arguments.Word(0);
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  ListPrinter printer(context.out(),
                      {{"KIND"}, {"NAME"}, {"VERSION", true}, {"SIZE", true}, {"MODIFIED"}});
  TILEKV_RETURN_IF_ERROR(
      VisitModels(context, *store, prefix, false,
                  [&](const v1::ModelInfo& model) { return printer.Add(ModelRow(model)); }));
  ListOptions options{.prefix = prefix};
  while (true) {
    TILEKV_RETURN_IF_ERROR(context.call().Check());
    TILEKV_ASSIGN_OR_RETURN(ValuePage page, store->List(options, context.call()));
    for (const ValueInfo& info : page.values) TILEKV_RETURN_IF_ERROR(printer.Add(ValueRow(info)));
    if (!page.more || page.values.empty()) break;
    options.after = page.values.back().key;
  }
  TILEKV_RETURN_IF_ERROR(printer.Finish());
  return kExitDone;
}

Json UsageJson(const v1::UsageRow& row) {
  Json json;
  json["versions"] = row.versions();
  json["logical_bytes"] = row.logical_bytes();
  json["referenced_bytes"] = row.referenced_bytes();
  json["unique_bytes"] = row.unique_bytes();
  json["shared_bytes"] = row.shared_bytes();
  json["stored_bytes"] = row.stored_bytes();
  return json;
}

std::vector<std::string> UsageCells(const std::string& name, const v1::UsageRow& row) {
  return {name,
          std::to_string(row.versions()),
          FormatSize(row.logical_bytes()),
          FormatSize(row.unique_bytes()),
          FormatSize(row.shared_bytes()),
          FormatSize(row.stored_bytes()),
          FormatSize(row.referenced_bytes())};
}

std::string UsageName(const v1::UsageRow& row) {
  if (row.model().empty()) return "(values)";
  const std::string hidden = std::string(kDefaultNamespace) + "/";
  return row.model().rfind(hidden, 0) == 0 ? row.model().substr(hidden.size()) : row.model();
}

absl::StatusOr<v1::UsageResponse> AskUsage(Context& context, KvStore& store,
                                           const std::string& prefix) {
  v1::UsageRequest request;
  request.set_prefix(prefix);
  TILEKV_ASSIGN_OR_RETURN(v1::UsageResponse usage, store.node().Usage(request, context.call()));
  if (prefix.empty() || usage.total().versions() > 0 || usage.total().logical_bytes() > 0) {
    return usage;
  }
  // Nothing is called so; people do not see the default namespace.
  request.set_prefix(std::string(kDefaultNamespace) + "/" + prefix);
  return store.node().Usage(request, context.call());
}

absl::StatusOr<int> DiskUsage(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  TILEKV_ASSIGN_OR_RETURN(v1::UsageResponse usage, AskUsage(context, *store, arguments.Word(0)));
  Output& out = context.out();
  if (out.is_json()) {
    Json json;
    json["rows"] = Json::array();
    for (const v1::UsageRow& row : usage.rows()) {
      Json one;
      one["name"] = UsageName(row);
      one.update(UsageJson(row));
      json["rows"].push_back(one);
    }
    json["total"] = UsageJson(usage.total());
    json["unreferenced_bytes"] = usage.unreferenced_bytes();
    TILEKV_RETURN_IF_ERROR(out.Document(json));
    return kExitDone;
  }
  ListPrinter printer(out, {{"NAME"},
                            {"VERSIONS", true},
                            {"LOGICAL", true},
                            {"UNIQUE", true},
                            {"SHARED", true},
                            {"STORED", true},
                            {"REFERENCED", true, true}});
  for (const v1::UsageRow& row : usage.rows()) {
    TILEKV_RETURN_IF_ERROR(printer.Add({UsageCells(UsageName(row), row), nullptr}));
  }
  TILEKV_RETURN_IF_ERROR(printer.Add({UsageCells("total", usage.total()), nullptr}));
  TILEKV_RETURN_IF_ERROR(printer.Finish());
  if (usage.unreferenced_bytes() > 0) {
    context.Remark(fmt::format("{} more are held by nothing; 'tilekv store gc' takes them.",
                               FormatSize(usage.unreferenced_bytes())));
  }
  return kExitDone;
}

absl::StatusOr<int> Version(Context& context, const Arguments&) {
  Json json;
  json["version"] = TILEKV_VERSION;
  if (context.out().is_json()) {
    TILEKV_RETURN_IF_ERROR(context.out().Document(json));
  } else {
    TILEKV_RETURN_IF_ERROR(context.out().Line(fmt::format("tilekv {}", TILEKV_VERSION)));
  }
  return kExitDone;
}

}  // namespace

std::vector<CommandSpec> TopCommandSpecs() {
  return {
      {.verb = "ls",
       .arguments = {{"PREFIX", "of names", false}},
       .summary = "list models and values",
       .access = Access::kRead,
       .handler = ListAll},
      {.verb = "du",
       .arguments = {{"PREFIX", "of models' names, or of keys", false}},
       .summary = "what models and values take: logical, unique, shared, stored",
       .help =
           "LOGICAL counts what every version holds, as if each were alone. UNIQUE is what would "
           "be freed if the name were gone; SHARED is reached by other names too. STORED is what "
           "the disk holds, as coded. In the total, what names share counts once.",
       .access = Access::kRead,
       .handler = DiskUsage},
      {.verb = "version", .summary = "the program's version", .handler = Version},
  };
}

}  // namespace tilekv
