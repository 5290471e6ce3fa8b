#include "tensor_chunking/relative_path.h"

#include <string>

#include "fmt/format.h"
#include "kvstore/base/utf8.h"

namespace tilekv {

absl::Status CheckRelativePath(std::string_view path, Reason reason) {
  auto bad = [&](std::string_view why) {
    return MakeError(reason, fmt::format("path '{}' {}", Printable(path), why));
  };
  if (path.size() > kMaxRelativePathBytes) {
    return bad(
        fmt::format("is {} bytes; at most {} are taken", path.size(), kMaxRelativePathBytes));
  }
  if (!IsValidUtf8(path)) return bad("is not UTF-8");
  if (path.find('\0') != std::string_view::npos || path.find('\\') != std::string_view::npos) {
    return bad("has a NUL or a backslash");
  }
  for (std::string_view rest = path;;) {
    size_t slash = rest.find('/');
    std::string_view name = rest.substr(0, slash);
    if (name.empty() || name == "." || name == "..") {
      return bad("is not a path inside the model's folder");
    }
    if (slash == std::string_view::npos) return absl::OkStatus();
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace tilekv
