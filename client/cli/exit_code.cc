#include "client/cli/exit_code.h"

#include <array>

#include "kvstore/base/reasons.h"

namespace tilekv {
namespace {

constexpr std::array kCodes = {
    ExitCodeInfo{kExitDone, "done"},
    ExitCodeInfo{kExitDiffers, "models differ, or damage was found"},
    ExitCodeInfo{kExitUsage, "usage: the command, or a file given to it, cannot be right"},
    ExitCodeInfo{kExitNotFound, "not found"},
    ExitCodeInfo{kExitConditionUnmet,
                 "condition unmet: another version or tag is there, a version is tagged"},
    ExitCodeInfo{kExitUnavailable, "unavailable: right, but not now or not for this user"},
    ExitCodeInfo{kExitDataLoss, "data loss"},
    ExitCodeInfo{kExitTooLarge, "too large, full or over quota"},
    ExitCodeInfo{kExitInterrupted, "Ctrl-C, or the answer to a question was no"},
    ExitCodeInfo{kExitBrokenPipe, "the reader of standard output went away"},
};

}  // namespace

std::span<const ExitCodeInfo> ExitCodes() { return kCodes; }

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  Reason reason = GetReason(status);
  // Of the file system: an existing file where none may be.
  if (reason == Reason::kNone && absl::IsAlreadyExists(status)) return kExitConditionUnmet;
  return static_cast<ExitCode>(ReasonExitCode(reason));
}

}  // namespace tilekv
