// What the program tells its caller when it ends. Stable; documented in docs/cli.md and, error by
// error, in docs/errors.md.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace tilekv {

enum ExitCode : int {
  kExitDone = 0,
  kExitDiffers = 1,  // models differ, or damage was found
  kExitUsage = 2,    // the command, or a file given to it, cannot be right
  kExitNotFound = 3,
  kExitConditionUnmet = 4,
  kExitUnavailable = 5,  // right, but not now or not for this user
  kExitDataLoss = 6,
  kExitTooLarge = 7,           // above the object limit, disk full, over quota
  kExitInterrupted = 130,      // Ctrl-C
  kExitBrokenPipe = 128 + 13,  // the reader of standard output went away
};

struct ExitCodeInfo {
  ExitCode code;
  std::string_view meaning;
};
// All of them, ascending.
std::span<const ExitCodeInfo> ExitCodes();

// The code for an error; kExitDone for OK.
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace tilekv
