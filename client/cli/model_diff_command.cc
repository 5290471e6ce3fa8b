// tilekv model diff: what differs between two versions, in tiles or in numbers.
#include <cmath>

#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/model_listing.h"
#include "client/cli/open_model.h"
#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_files.h"
#include "tensor_chunking/tensor_values.h"

namespace tilekv {
namespace {

// Of the rows of a difference, in their order; none where --values is not given, or where a row has
// no older elements to compare.
using ValueRows = std::vector<std::optional<ValueChanges>>;

struct DiffLook {
  const char* sign;
  const char* word;
};
DiffLook LookOf(DiffRow::Kind kind) {
  switch (kind) {
    case DiffRow::Kind::kAdded:
      return {"+", "added"};
    case DiffRow::Kind::kRemoved:
      return {"-", "removed"};
    case DiffRow::Kind::kChanged:
      return {"~", "changed"};
    case DiffRow::Kind::kRetyped:
      return {"!", "retyped"};
  }
  return {"?", "?"};
}

absl::StatusOr<ValueRows> ReadValues(Context& context, ModelReader& older, ModelReader& newer,
                                     const ModelDiff& diff) {
  WriteProgress done;
  for (const DiffRow& row : diff.rows) {
    if (row.kind == DiffRow::Kind::kChanged) done.total_bytes += row.changed_bytes;
  }
  std::unique_ptr<Progress> progress = context.StartProgress("compare");
  ValueRows values(diff.rows.size());
  for (size_t i = 0; i < diff.rows.size(); ++i) {
    if (diff.rows[i].kind != DiffRow::Kind::kChanged) continue;
    TILEKV_ASSIGN_OR_RETURN(values[i],
                            CompareValues(older, newer, diff.rows[i].tensor, [&](uint64_t bytes) {
                              done.done_bytes += bytes;
                              progress->Update(done.done_bytes, done.total_bytes);
                            }));
  }
  return values;
}

double Share(const ElementChanges& changes) {
  return changes.count == 0
             ? 0
             : static_cast<double>(changes.changed) / static_cast<double>(changes.count);
}

// JSON knows no infinities.
Json NumberJson(long double value) {
  double number = static_cast<double>(value);
  return std::isfinite(number) ? Json(number) : Json(nullptr);
}

Json ValuesJson(const ValueChanges& values) {
  Json json;
  json["numeric"] = values.numeric;
  json["elements"] = values.changes.count;
  json["changed"] = values.changes.changed;
  json["largest_absolute"] = NumberJson(values.changes.largest_absolute);
  json["largest_relative"] = NumberJson(values.changes.largest_relative);
  json["new_nan"] = values.changes.new_nans;
  json["new_inf"] = values.changes.new_infinities;
  return json;
}

std::vector<std::string> ValuesCells(const std::optional<ValueChanges>& values) {
  if (!values.has_value() || !values->numeric) return {"-", "-", "-", "-", "-"};
  const ElementChanges& changes = values->changes;
  return {fmt::format("{:.3g} %", 100 * Share(changes)),
          fmt::format("{:.3g}", changes.largest_absolute),
          fmt::format("{:.3g}", changes.largest_relative), FormatCount(changes.new_nans),
          FormatCount(changes.new_infinities)};
}

Json DiffJson(const ModelReader& older, const ModelReader& newer, const ModelDiff& diff,
              const ValueRows& values) {
  Json json;
  json["older"] = older.full_name();
  json["newer"] = newer.full_name();
  json["same"] = diff.same();
  json["same_tensors"] = diff.same_tensors;
  json["tensors"] = Json::array();
  for (size_t i = 0; i < diff.rows.size(); ++i) {
    const DiffRow& row = diff.rows[i];
    Json one = {{"name", JsonText(row.tensor)},
                {"change", LookOf(row.kind).word},
                {"tiles", row.tiles},
                {"changed_tiles", row.changed_tiles},
                {"changed_bytes", row.changed_bytes}};
    if (i < values.size() && values[i].has_value()) one["values"] = ValuesJson(*values[i]);
    json["tensors"].push_back(std::move(one));
  }
  json["side_files_added"] = diff.side_files_added;
  json["side_files_removed"] = diff.side_files_removed;
  json["side_files_changed"] = diff.side_files_changed;
  json["metadata_differs"] = diff.metadata_differs;
  return json;
}

absl::Status PrintRows(Output& out, const ModelDiff& diff, const ValueRows& values) {
  std::vector<Column> columns = {{""}, {"TENSOR"}, {"CHANGE"}, {"TILES", true}, {"SIZE", true}};
  if (!values.empty()) {
    for (const char* title : {"ELEMENTS", "LARGEST", "RELATIVE", "NEW NAN", "NEW INF"}) {
      columns.push_back({title, true});
    }
  }
  ListPrinter printer(out, std::move(columns));
  for (size_t i = 0; i < diff.rows.size(); ++i) {
    const DiffRow& row = diff.rows[i];
    DiffLook look = LookOf(row.kind);
    std::string tiles = row.kind == DiffRow::Kind::kRemoved
                            ? ""
                            : fmt::format("{} of {}", row.changed_tiles, row.tiles);
    std::vector<std::string> cells = {look.sign, Printable(row.tensor), look.word, tiles,
                                      FormatSize(row.changed_bytes)};
    if (!values.empty()) {
      for (std::string& cell : ValuesCells(values[i])) cells.push_back(std::move(cell));
    }
    TILEKV_RETURN_IF_ERROR(printer.Add({std::move(cells), nullptr}));
  }
  return printer.Finish();
}

absl::Status PrintDiff(Output& out, const ModelReader& older, const ModelReader& newer,
                       const ModelDiff& diff, const ValueRows& values) {
  TILEKV_RETURN_IF_ERROR(PrintRows(out, diff, values));
  auto files = [&](const char* sign, const std::vector<std::string>& paths) -> absl::Status {
    for (const std::string& path : paths) {
      TILEKV_RETURN_IF_ERROR(out.Line(fmt::format("{} side file {}", sign, Printable(path))));
    }
    return absl::OkStatus();
  };
  TILEKV_RETURN_IF_ERROR(files("+", diff.side_files_added));
  TILEKV_RETURN_IF_ERROR(files("-", diff.side_files_removed));
  TILEKV_RETURN_IF_ERROR(files("~", diff.side_files_changed));
  if (diff.metadata_differs) TILEKV_RETURN_IF_ERROR(out.Line("~ metadata"));
  return out.Line(diff.same() ? fmt::format("{} and {} are the same", VersionText(older.version()),
                                            VersionText(newer.version()))
                              : fmt::format("{} the same", Counted(diff.same_tensors, "tensor")));
}

absl::StatusOr<int> ModelDiffer(Context& context, const Arguments& arguments) {
  // Both names first: one of them may name the store.
  TILEKV_RETURN_IF_ERROR(context.Model(arguments.Word(1)).status());
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> older,
                          OpenModel(context, arguments.Word(0)));
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> newer,
                          OpenModel(context, arguments.Word(1)));
  TILEKV_ASSIGN_OR_RETURN(ModelDiff diff, DiffModels(*older, *newer));
  ValueRows values;
  if (arguments.Has("--values")) {
    TILEKV_ASSIGN_OR_RETURN(values, ReadValues(context, *older, *newer, diff));
  }
  if (context.out().is_json()) {
    TILEKV_RETURN_IF_ERROR(context.out().Document(DiffJson(*older, *newer, diff, values)));
  } else if (!context.options().quiet) {
    TILEKV_RETURN_IF_ERROR(PrintDiff(context.out(), *older, *newer, diff, values));
  }
  return diff.same() ? kExitDone : kExitDiffers;
}

}  // namespace

std::vector<CommandSpec> ModelDiffCommandSpecs() {
  return {
      {.noun = "model",
       .verb = "diff",
       .arguments = {{"A", "the older version"}, {"B", "the newer version"}},
       .summary = "which tensors and tiles differ between two versions",
       .help = "Reads manifests only; with --values also the tiles that differ, within --memory: "
               "the share of elements whose bits changed, the largest change, the largest one "
               "against the older value, and elements that became NaN or infinite. Exits with 1 "
               "when they differ.",
       .flags = {{"--values", "", "", "compare elements too"}},
       .examples = {{"tilekv model diff minilm@1 minilm@2", ""},
                    {"tilekv model diff minilm@1 minilm@2 --values", ""}},
       .access = Access::kRead,
       .handler = ModelDiffer},
  };
}

}  // namespace tilekv
