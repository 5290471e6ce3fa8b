#include "client/cli/open_model.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<std::unique_ptr<ModelReader>> OpenModel(Context& context, std::string_view text,
                                                       ReaderOptions options) {
  TILEKV_ASSIGN_OR_RETURN(ModelName name, context.Model(text));
  TILEKV_ASSIGN_OR_RETURN(KvStore * store, context.Store());
  options.memory_bytes = context.options().memory_bytes;
  options.context = context.call();
  return ModelReader::Open(*store, name, options);
}

absl::Status RefuseVersion(const ModelName& name, std::string_view what) {
  if (name.version.empty()) return absl::OkStatus();
  ModelName bare = name;
  bare.version.clear();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("{} '{}'; leave out '@{}'", what, bare.ToString(), name.version));
}

}  // namespace tilekv
