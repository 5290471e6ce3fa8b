// Paths of files that belong to a model, as they are stored: relative, inside the model's folder.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "kvstore/base/status.h"

namespace tilekv {

inline constexpr size_t kMaxRelativePathBytes = 4'096;

// An error with `reason`, naming the path, unless it is names joined by `/`, none of them empty,
// "." or "..", in UTF-8 without NUL and backslash, at most kMaxRelativePathBytes.
absl::Status CheckRelativePath(std::string_view path, Reason reason);

}  // namespace tilekv
