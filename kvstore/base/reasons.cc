#include "kvstore/base/reasons.h"

#include <array>

namespace tilekv {
namespace {

// As client/cli/exit_code.h names them.
constexpr int kUsage = 2;
constexpr int kNotFound = 3;
constexpr int kConditionUnmet = 4;
constexpr int kUnavailable = 5;
constexpr int kDataLoss = 6;
constexpr int kTooLarge = 7;
constexpr int kInterrupted = 130;

constexpr std::array kReasons = {
    ReasonInfo{Reason::kInvalidArgument, "INVALID_ARGUMENT", absl::StatusCode::kInvalidArgument,
               kUsage, "A request that can never be right: a name, a flag, a slice.", "no",
               "Correct what the text names."},
    ReasonInfo{Reason::kInvalidFile, "INVALID_FILE", absl::StatusCode::kInvalidArgument, kUsage,
               "A file that is not what it should be. The text says what and where in it.", "no",
               "Fetch or write the file again; leave it out with --exclude."},
    ReasonInfo{Reason::kObjectTooLarge, "OBJECT_TOO_LARGE", absl::StatusCode::kOutOfRange,
               kTooLarge, "A value is above the store's object limit.", "no",
               "Store a matrix with 'tilekv model import', another file with 'tilekv kv put "
               "--chunked'."},
    ReasonInfo{Reason::kStoreFull, "STORE_FULL", absl::StatusCode::kResourceExhausted, kTooLarge,
               "The disk is down to the reserve that a store leaves free. Nothing is lost.",
               "once there is room",
               "Remove versions and values and run 'tilekv store gc', or make the disk larger."},
    ReasonInfo{Reason::kQuotaExceeded, "QUOTA_EXCEEDED", absl::StatusCode::kResourceExhausted,
               kTooLarge, "More than its quota allows a namespace.", "once there is room",
               "Remove versions of the namespace, or ask for a larger quota."},
    ReasonInfo{Reason::kOverloaded, "OVERLOADED", absl::StatusCode::kUnavailable, kUnavailable,
               "The node has as many calls as it takes.", "yes, after a pause",
               "Fewer calls at once, or a larger --memory of the server."},
    ReasonInfo{Reason::kNodeUnavailable, "NODE_UNAVAILABLE", absl::StatusCode::kUnavailable,
               kUnavailable, "A node cannot be reached, or an address cannot be listened on.",
               "yes", "See that the server runs and that host and port are right."},
    ReasonInfo{Reason::kTooFewCopies, "TOO_FEW_COPIES", absl::StatusCode::kUnavailable,
               kUnavailable,
               "Fewer stores than needed hold an object, so nothing was made visible.", "yes",
               "Upload what the text names again; see that the nodes run."},
    ReasonInfo{Reason::kVersionConflict, "VERSION_CONFLICT", absl::StatusCode::kAborted,
               kConditionUnmet,
               "Another version is there than the one that the write was to follow.",
               "after reading again", "Look at the version found, and decide anew."},
    ReasonInfo{Reason::kOutcomeUnknown, "OUTCOME_UNKNOWN", absl::StatusCode::kUnknown, kUnavailable,
               "The connection broke in a write, which may or may not have happened.",
               "after reading", "Read what is there, then write again if it is needed."},
    ReasonInfo{Reason::kSessionLost, "SESSION_LOST", absl::StatusCode::kFailedPrecondition,
               kUnavailable, "An upload's session ended before its commit: it was away too long.",
               "yes, from the beginning",
               "Start the upload again; what is stored already is not sent again."},
    ReasonInfo{Reason::kCatalogRewound, "CATALOG_REWOUND", absl::StatusCode::kFailedPrecondition,
               kUnavailable,
               "The catalog is an older state of itself, or another one. Reading goes on, writing "
               "does not.",
               "no", "Bring the newest catalog back, or recover on purpose from this one."},
    ReasonInfo{Reason::kNotFound, "NOT_FOUND", absl::StatusCode::kNotFound, kNotFound,
               "No such model, version, tag, tensor, value or file.", "no",
               "'tilekv ls' and 'tilekv model log' show what is there."},
    ReasonInfo{Reason::kDataLoss, "DATA_LOSS", absl::StatusCode::kDataLoss, kDataLoss,
               "Bytes are gone, or are not those that were stored. What they belong to is named; "
               "wrong bytes are never given out.",
               "no",
               "'tilekv store fsck --content' lists all damage. Storing the same content again "
               "heals it."},
    ReasonInfo{Reason::kStoreMismatch, "STORE_MISMATCH", absl::StatusCode::kFailedPrecondition,
               kUsage,
               "The store was made with another object limit, or by a newer program, or is another "
               "store.",
               "no", "Leave the limit out, take the newer program, or name the right directory."},
    ReasonInfo{Reason::kStoreLocked, "STORE_LOCKED", absl::StatusCode::kFailedPrecondition,
               kUnavailable, "Another process writes to the directory. The text names it.",
               "once it has ended",
               "Use the address of the server that has it. Commands that only read need no lock."},
    ReasonInfo{Reason::kStoreFailed, "STORE_FAILED", absl::StatusCode::kInternal, kUnavailable,
               "Writing to the disk failed. Reading goes on, but this process writes no more.",
               "no",
               "See to the disk, then start again: what was acknowledged is there, or is reported "
               "as lost."},
    ReasonInfo{Reason::kCancelled, "CANCELLED", absl::StatusCode::kCancelled, kInterrupted,
               "Ctrl-C, the caller's cancelling, or 'no' to a question.", "yes", "Nothing."},
    ReasonInfo{Reason::kDeadlineExceeded, "DEADLINE_EXCEEDED", absl::StatusCode::kDeadlineExceeded,
               kUnavailable, "A call took longer than its caller allowed.", "yes",
               "Allow more time; see whether node or network are slow."},
    ReasonInfo{Reason::kUnauthenticated, "UNAUTHENTICATED", absl::StatusCode::kUnauthenticated,
               kUnavailable, "The server does not know who is calling.", "no",
               "Give the credentials that the server asks for."},
    ReasonInfo{Reason::kPermissionDenied, "PERMISSION_DENIED", absl::StatusCode::kPermissionDenied,
               kUnavailable, "The caller, or the process on its files, may not do this.", "no",
               "Ask for the right, or correct the permissions of the path that the text names."},
    ReasonInfo{Reason::kInternal, "INTERNAL", absl::StatusCode::kInternal, kUnavailable,
               "Something that should not happen: of the system or of this program.", "no",
               "Report it with its text and the server's log."},
};

constexpr bool InOrder() {
  for (size_t i = 0; i < kReasons.size(); ++i) {
    if (static_cast<size_t>(kReasons[i].reason) != i + 1) return false;
  }
  return kReasons.size() == static_cast<size_t>(Reason::kInternal);
}
static_assert(InOrder(), "a reason's row is found by its number");

}  // namespace

std::span<const ReasonInfo> AllReasons() { return kReasons; }

const ReasonInfo* FindReason(Reason reason) {
  size_t index = static_cast<size_t>(reason);
  return index == 0 || index > kReasons.size() ? nullptr : &kReasons[index - 1];
}

int ReasonExitCode(Reason reason) {
  const ReasonInfo* info = FindReason(reason);
  return info == nullptr ? kUnavailable : info->exit_code;
}

}  // namespace tilekv
