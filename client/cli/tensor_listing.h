// How tensors of a manifest are shown: one row each, as text and as JSON.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/cli/output.h"
#include "tensor_chunking/manifest.h"

namespace tilekv {

// "alias", "empty", "pack" (inside an object that others share), "whole" (one tile), "rows" (cut
// across the last dimension nowhere) or "bands".
std::string LayoutName(const TensorEntry& tensor);
// Tiles of a tensor, also while its tile lists are not read. 0 for an alias.
uint64_t TileCount(const TensorEntry& tensor);
Json TensorJson(const TensorEntry& tensor);
absl::Status PrintTensors(Output& out, const Manifest& manifest);

}  // namespace tilekv
