// tilekv tensor ...: tensors of a model, slices of them, and what their numbers are like.
#include <cmath>

#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/model_listing.h"
#include "client/cli/open_model.h"
#include "client/cli/tensor_listing.h"
#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/tensor_export.h"
#include "tensor_chunking/tensor_values.h"

namespace tilekv {
namespace {

absl::StatusOr<int> TensorList(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> reader,
                          OpenModel(context, arguments.Word(0)));
  TILEKV_RETURN_IF_ERROR(PrintTensors(context.out(), reader->manifest()));
  return kExitDone;
}

// "309.0 MiB (read 312.1 MiB)".
std::string BytesText(const TensorExportReport& report) {
  return fmt::format("{} (read {})", FormatSize(report.bytes),
                     FormatSize(report.read.received_bytes));
}

absl::StatusOr<TensorExportOptions> ReadGetOptions(Context& context, const Arguments& arguments) {
  TensorExportOptions options{.slice = arguments.Value("--slice").value_or(""),
                              .overwrite = context.options().yes};
  // Of a script whose variable is empty: everything is not what it asked for.
  if (arguments.Has("--slice") && options.slice.find_first_not_of(' ') == std::string::npos) {
    return MakeError(Reason::kInvalidArgument,
                     "--slice is empty; write ... for everything, or leave it out");
  }
  TILEKV_RETURN_IF_ERROR(ParseSlice(options.slice).status());
  if (std::optional<std::string> as = arguments.Value("--as")) {
    TILEKV_ASSIGN_OR_RETURN(options.as, ParseDType(*as));
  }
  return options;
}

absl::StatusOr<int> TensorGet(Context& context, const Arguments& arguments) {
  const std::string tensor = arguments.Word(1);
  const std::string destination = arguments.Word(2);
  TILEKV_ASSIGN_OR_RETURN(TensorExportOptions options, ReadGetOptions(context, arguments));
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> reader,
                          OpenModel(context, arguments.Word(0)));
  const bool to_output = destination == "-";
  OutputSink sink(context.out());
  std::unique_ptr<Progress> progress = context.StartProgress("get");
  options.progress = [&progress](const WriteProgress& done) {
    progress->Update(done.done_bytes, done.total_bytes);
  };
  TILEKV_ASSIGN_OR_RETURN(
      TensorExportReport report,
      ExportTensor(*reader, tensor, destination, to_output ? &sink : nullptr, options));
  progress->Finish();
  if (report.overflowed > 0) {
    context.Remark(fmt::format("{} beyond {} became infinite.",
                               Counted(report.overflowed, "number"), DTypeName(report.dtype)));
  }
  if (to_output) return kExitDone;
  Json json;
  json["model"] = reader->full_name();
  json["tensor"] = JsonText(tensor);
  json["dtype"] = DTypeName(report.dtype);
  json["shape"] = report.shape;
  json["destination"] = JsonText(destination);
  json["bytes"] = report.bytes;
  json["asked_bytes"] = report.read.asked_bytes;
  json["read_bytes"] = report.read.received_bytes;
  json["overflowed"] = report.overflowed;
  TILEKV_RETURN_IF_ERROR(context.Done(
      fmt::format("{} {} {} {} to {}: {}", VersionText(reader->version()), Printable(tensor),
                  DTypeName(report.dtype), FormatShape(report.shape), Printable(destination),
                  BytesText(report)),
      json));
  return kExitDone;
}

// --- stats

std::string NumberText(long double value) { return fmt::format("{:.6g}", value); }

// JSON knows no infinities, which only overflow of a sum can give here.
Json NumberJson(long double value) {
  double number = static_cast<double>(value);
  return std::isfinite(number) ? Json(number) : Json(nullptr);
}

Row StatsRow(const TensorStats& tensor) {
  const ElementStats& stats = tensor.stats;
  const bool any = tensor.numeric && stats.finite() > 0;
  Json json;
  json["name"] = JsonText(tensor.tensor);
  json["dtype"] = DTypeName(tensor.dtype);
  json["shape"] = tensor.shape;
  json["numeric"] = tensor.numeric;
  json["min"] = any ? NumberJson(stats.least) : Json(nullptr);
  json["max"] = any ? NumberJson(stats.greatest) : Json(nullptr);
  json["mean"] = any ? NumberJson(stats.mean) : Json(nullptr);
  json["std"] = any ? NumberJson(stats.deviation()) : Json(nullptr);
  json["elements"] = stats.count;
  json["zeros"] = stats.zeros;
  json["nan"] = stats.nans;
  json["inf"] = stats.infinities;
  json["subnormal"] = stats.subnormals;
  auto number = [&](long double value) { return any ? NumberText(value) : std::string("-"); };
  auto count = [&](uint64_t value) {
    return tensor.numeric ? FormatCount(value) : std::string("-");
  };
  return {{Printable(tensor.tensor), std::string(DTypeName(tensor.dtype)), number(stats.least),
           number(stats.greatest), number(stats.mean), number(stats.deviation()),
           count(stats.zeros), count(stats.nans), count(stats.infinities), count(stats.subnormals),
           FormatShape(tensor.shape)},
          json};
}

absl::StatusOr<int> ShowStats(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> reader,
                          OpenModel(context, arguments.Word(0)));
  std::unique_ptr<Progress> progress = context.StartProgress("read");
  ListPrinter printer(context.out(), {{"TENSOR"},
                                      {"DTYPE"},
                                      {"MIN", true},
                                      {"MAX", true},
                                      {"MEAN", true},
                                      {"STD", true},
                                      {"ZERO", true},
                                      {"NAN", true},
                                      {"INF", true},
                                      {"SUBNORMAL", true},
                                      {"SHAPE", false, true}});
  TILEKV_RETURN_IF_ERROR(VisitTensorStats(
      *reader, arguments.WordsFrom(1),
      [&](const TensorStats& tensor) { return printer.Add(StatsRow(tensor)); },
      [&](const WriteProgress& done) { progress->Update(done.done_bytes, done.total_bytes); }));
  progress->Finish();
  TILEKV_RETURN_IF_ERROR(printer.Finish("no tensors"));
  return kExitDone;
}

}  // namespace

std::vector<CommandSpec> TensorCommandSpecs() {
  const ArgumentSpec model = {"MODEL", "[NS/]NAME[@VERSION]"};
  return {
      {.noun = "tensor",
       .verb = "ls",
       .arguments = {model},
       .summary = "list tensors: dtype, shape, layout, tiles",
       .access = Access::kRead,
       .handler = TensorList},
      {.noun = "tensor",
       .verb = "get",
       .arguments = {model,
                     {"T", "the tensor's name"},
                     {"DST", "a .npy or .safetensors file, or - for raw bytes, row by row"}},
       .summary = "write a tensor, or a slice of it",
       .help =
           "A slice is written as in NumPy: 0:10, ::2, -3:, 5, ... and None, one for each "
           "dimension, separated by commas. Only what it touches is read, and written as it comes. "
           "--as rounds to nearest, ties to even. Beyond a floating type's largest is infinity, "
           "and said so; what a type cannot hold otherwise (beyond an integer's range or that "
           "of F8_E4M3, NaN as an integer) is an error that names the element.",
       .flags = {{"--slice", "", "S", "what to take (default: all)"},
                 {"--as", "", "DTYPE", "convert to this dtype, such as F32, BF16, F8_E4M3 or I8"}},
       .examples = {{"tilekv tensor get matrix weights rows.npy --slice -3:",
                     "the last three rows"},
                    {"tilekv tensor get matrix weights - --slice 0:10,::2", "raw, to a pipe"},
                    {"tilekv tensor get matrix weights half.npy --as F16", ""}},
       .access = Access::kRead,
       .handler = TensorGet},
      {.noun = "tensor",
       .verb = "stats",
       .arguments = {model, {"T", "tensors (default: all)", false, true}},
       .summary = "numbers of tensors: least, greatest, mean, deviation, zeros, NaN, infinities",
       .help = "Reads the tensors whole, within --memory. MIN, MAX, MEAN and STD are of the finite "
               "elements; STD is that of the population. F4, F6 and C64 are passed over.",
       .examples = {{"tilekv tensor stats minilm", ""},
                    {"tilekv tensor stats matrix weights -o json", ""}},
       .access = Access::kRead,
       .handler = ShowStats},
  };
}

}  // namespace tilekv
