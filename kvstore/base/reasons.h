// The one table of reasons: names, codes, and what docs/errors.md says about each. Immutable.
#pragma once

#include <span>
#include <string_view>

#include "kvstore/base/status.h"

namespace tilekv {

struct ReasonInfo {
  Reason reason;
  std::string_view name;  // "OBJECT_TOO_LARGE"
  absl::StatusCode code;  // of every error with this reason, and of gRPC
  int exit_code;          // of the programs
  std::string_view meaning;
  std::string_view retry;  // whether the same call may be tried again
  std::string_view remedy;
};

// All but kNone, in the order of the enumeration.
std::span<const ReasonInfo> AllReasons();
// Null for kNone.
const ReasonInfo* FindReason(Reason reason);
// That of an error made elsewhere, for kNone.
int ReasonExitCode(Reason reason);

}  // namespace tilekv
