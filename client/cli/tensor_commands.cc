// tilekv tensor ...: tensors of a model, and slices of them.
#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/model_listing.h"
#include "client/cli/open_model.h"
#include "client/cli/tensor_listing.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/model_files.h"

namespace tilekv {
namespace {

absl::StatusOr<int> TensorList(Context& context, const Arguments& arguments) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> reader,
                          OpenModel(context, arguments.Word(0)));
  TILEKV_RETURN_IF_ERROR(PrintTensors(context.out(), reader->manifest()));
  return kExitDone;
}

absl::StatusOr<int> TensorGet(Context& context, const Arguments& arguments) {
  const std::string tensor = arguments.Word(1);
  const std::string destination = arguments.Word(2);
  const std::string slice = arguments.Value("--slice").value_or("");
  TILEKV_RETURN_IF_ERROR(ParseSlice(slice).status());
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<ModelReader> reader,
                          OpenModel(context, arguments.Word(0)));
  bool to_output = destination == "-";
  OutputSink sink(context.out());
  TILEKV_RETURN_IF_ERROR(ExportTensor(*reader, tensor, slice, destination, context.options().yes,
                                      to_output ? &sink : nullptr));
  if (to_output) return kExitDone;
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<const TensorEntry> stored, reader->Find(tensor));
  TILEKV_ASSIGN_OR_RETURN(ResolvedSlice resolved, ResolveSlice(slice, stored->shape));
  Json json;
  json["model"] = reader->full_name();
  json["tensor"] = JsonText(tensor);
  json["dtype"] = DTypeName(stored->dtype);
  json["shape"] = resolved.result_shape;
  json["destination"] = JsonText(destination);
  TILEKV_RETURN_IF_ERROR(
      context.Done(fmt::format("{} {} {} {} to {}", VersionText(reader->version()),
                               Printable(tensor), DTypeName(stored->dtype),
                               FormatShape(resolved.result_shape), Printable(destination)),
                   json));
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
       .help = "A slice is written as in NumPy: 0:10, ::2, -3:, 5, ... and None, one for each "
               "dimension, separated by commas. Only the tiles that it touches are read.",
       .flags = {{"--slice", "", "S", "what to take (default: all)"}},
       .examples = {{"tilekv tensor get matrix weights rows.npy --slice -3:",
                     "the last three rows"},
                    {"tilekv tensor get matrix weights - --slice 0:10,::2", "raw, to a pipe"}},
       .access = Access::kRead,
       .handler = TensorGet},
  };
}

}  // namespace tilekv
