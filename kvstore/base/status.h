// Errors: absl::Status with a machine-readable reason.
//
// Expected outcomes (a missing key, an unmet condition) are results of their calls; what comes as a
// status is an error. The reason decides the gRPC code, the CLI's exit code and what a caller may
// do; the text says what, which, how much and what to do. Reasons are stable and documented in
// docs/errors.md, which comes from kvstore/base/reasons.h.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tilekv {

enum class Reason {
  kNone,             // a status made elsewhere, without a reason of ours
  kInvalidArgument,  // a request that can never be right
  kInvalidFile,      // a file that is not what it should be: what, where
  kObjectTooLarge,   // key, size, limit, remedy
  kStoreFull,        // below the disk's reserve
  kQuotaExceeded,
  kOverloaded,  // try again after a delay
  kNodeUnavailable,
  kTooFewCopies,
  kVersionConflict,  // the version found
  kOutcomeUnknown,   // the write may or may not have happened
  kSessionLost,
  kCatalogRewound,
  kNotFound,
  kDataLoss,       // bytes that are gone or do not hash to their id: tensor and tile, object or key
                   // named
  kStoreMismatch,  // the store exists with another limit, format or uuid
  kStoreLocked,    // another writer has the directory
  kStoreFailed,    // a sync failed: this store takes no more writes
  kCancelled,
  kDeadlineExceeded,
  kUnauthenticated,
  kPermissionDenied,
  kInternal,
};

// "OBJECT_TOO_LARGE" and so on; "UNKNOWN" for kNone.
std::string_view ReasonName(Reason reason);
// kNone when the name is not one of ours.
Reason ReasonFromName(std::string_view name);
// The status code that every error with this reason carries.
absl::StatusCode ReasonCode(Reason reason);

// A status with this reason. The text is cut to kMaxMessageBytes.
absl::Status MakeError(Reason reason, std::string text);
Reason GetReason(const absl::Status& status);
// The same error with `context: ` before its text.
absl::Status WithContext(const absl::Status& status, std::string_view context);
// What a person reads: "OBJECT_TOO_LARGE: key 'w' is ...".
std::string ErrorText(const absl::Status& status);

// A name for a message: control characters, quotes and bytes that are not UTF-8 escaped, cut to
// kMaxNameInMessageBytes.
std::string Printable(std::string_view name);

// For programmer errors only; bad input never reaches one. Stays on in every build.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace tilekv

#define TILEKV_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::tilekv::CheckFailed(__FILE__, __LINE__, #condition))

#define TILEKV_CONCAT_INNER(a, b) a##b
#define TILEKV_CONCAT(a, b) TILEKV_CONCAT_INNER(a, b)

#define TILEKV_RETURN_IF_ERROR(expression)                                                      \
  do {                                                                                          \
    if (::absl::Status tilekv_status = (expression); !tilekv_status.ok()) return tilekv_status; \
  } while (false)

#define TILEKV_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                         \
  if (!result.ok()) return std::move(result).status();                \
  declaration = *std::move(result)
// TILEKV_ASSIGN_OR_RETURN(auto x, F()): x, or return F's error.
#define TILEKV_ASSIGN_OR_RETURN(declaration, expression) \
  TILEKV_ASSIGN_OR_RETURN_IMPL(TILEKV_CONCAT(tilekv_result_, __LINE__), declaration, expression)
