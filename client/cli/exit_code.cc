#include "client/cli/exit_code.h"

#include "kvstore/base/status.h"

namespace tilekv {

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kExitDone;
  switch (GetReason(status)) {
    case Reason::kInvalidArgument:
    case Reason::kInvalidFile:
    case Reason::kStoreMismatch:
      return kExitUsage;
    case Reason::kNotFound:
      return kExitNotFound;
    case Reason::kVersionConflict:
      return kExitConditionUnmet;
    case Reason::kDataLoss:
      return kExitDataLoss;
    case Reason::kObjectTooLarge:
    case Reason::kStoreFull:
    case Reason::kQuotaExceeded:
      return kExitTooLarge;
    case Reason::kCancelled:
      return kExitInterrupted;
    case Reason::kNone:
      // Of another library, or of the file system: an existing file where none may be.
      return absl::IsAlreadyExists(status) ? kExitConditionUnmet : kExitUnavailable;
    case Reason::kOverloaded:
    case Reason::kNodeUnavailable:
    case Reason::kTooFewCopies:
    case Reason::kOutcomeUnknown:
    case Reason::kSessionLost:
    case Reason::kCatalogRewound:
    case Reason::kStoreLocked:
    case Reason::kStoreFailed:
    case Reason::kDeadlineExceeded:
    case Reason::kUnauthenticated:
    case Reason::kPermissionDenied:
    case Reason::kInternal:
      return kExitUnavailable;
  }
  return kExitUnavailable;
}

}  // namespace tilekv
