// Models of the store that a command works on.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cli/context.h"
#include "tensor_chunking/model_reader.h"

namespace tilekv {

// With the command's memory and Ctrl-C; the rest of `options` is the command's.
absl::StatusOr<std::unique_ptr<ModelReader>> OpenModel(Context& context, std::string_view text,
                                                       ReaderOptions options = {});

// INVALID_ARGUMENT where a version is given although `what` concerns the model as a whole.
absl::Status RefuseVersion(const ModelName& name, std::string_view what);

}  // namespace tilekv
