#include "kvstore/base/status.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/utf8.h"

namespace tilekv {
namespace {

constexpr char kReasonUrl[] = "tilekv.v1/reason";

struct ReasonRow {
  Reason reason;
  const char* name;
  absl::StatusCode code;
};

constexpr std::array kReasons = {
    ReasonRow{Reason::kInvalidArgument, "INVALID_ARGUMENT", absl::StatusCode::kInvalidArgument},
    ReasonRow{Reason::kInvalidFile, "INVALID_FILE", absl::StatusCode::kInvalidArgument},
    ReasonRow{Reason::kObjectTooLarge, "OBJECT_TOO_LARGE", absl::StatusCode::kOutOfRange},
    ReasonRow{Reason::kStoreFull, "STORE_FULL", absl::StatusCode::kResourceExhausted},
    ReasonRow{Reason::kQuotaExceeded, "QUOTA_EXCEEDED", absl::StatusCode::kResourceExhausted},
    ReasonRow{Reason::kOverloaded, "OVERLOADED", absl::StatusCode::kUnavailable},
    ReasonRow{Reason::kNodeUnavailable, "NODE_UNAVAILABLE", absl::StatusCode::kUnavailable},
    ReasonRow{Reason::kTooFewCopies, "TOO_FEW_COPIES", absl::StatusCode::kUnavailable},
    ReasonRow{Reason::kVersionConflict, "VERSION_CONFLICT", absl::StatusCode::kAborted},
    ReasonRow{Reason::kOutcomeUnknown, "OUTCOME_UNKNOWN", absl::StatusCode::kUnknown},
    ReasonRow{Reason::kSessionLost, "SESSION_LOST", absl::StatusCode::kFailedPrecondition},
    ReasonRow{Reason::kCatalogRewound, "CATALOG_REWOUND", absl::StatusCode::kFailedPrecondition},
    ReasonRow{Reason::kNotFound, "NOT_FOUND", absl::StatusCode::kNotFound},
    ReasonRow{Reason::kDataLoss, "DATA_LOSS", absl::StatusCode::kDataLoss},
    ReasonRow{Reason::kStoreMismatch, "STORE_MISMATCH", absl::StatusCode::kFailedPrecondition},
    ReasonRow{Reason::kStoreLocked, "STORE_LOCKED", absl::StatusCode::kFailedPrecondition},
    ReasonRow{Reason::kStoreFailed, "STORE_FAILED", absl::StatusCode::kInternal},
    ReasonRow{Reason::kCancelled, "CANCELLED", absl::StatusCode::kCancelled},
    ReasonRow{Reason::kDeadlineExceeded, "DEADLINE_EXCEEDED", absl::StatusCode::kDeadlineExceeded},
    ReasonRow{Reason::kUnauthenticated, "UNAUTHENTICATED", absl::StatusCode::kUnauthenticated},
    ReasonRow{Reason::kPermissionDenied, "PERMISSION_DENIED", absl::StatusCode::kPermissionDenied},
    ReasonRow{Reason::kInternal, "INTERNAL", absl::StatusCode::kInternal},
};

const ReasonRow* FindRow(Reason reason) {
  for (const ReasonRow& row : kReasons) {
    if (row.reason == reason) return &row;
  }
  return nullptr;
}

std::string StdString(absl::string_view text) { return std::string(text.data(), text.size()); }

}  // namespace

std::string_view ReasonName(Reason reason) {
  const ReasonRow* row = FindRow(reason);
  return row == nullptr ? "UNKNOWN" : row->name;
}

Reason ReasonFromName(std::string_view name) {
  for (const ReasonRow& row : kReasons) {
    if (name == row.name) return row.reason;
  }
  return Reason::kNone;
}

absl::StatusCode ReasonCode(Reason reason) {
  const ReasonRow* row = FindRow(reason);
  return row == nullptr ? absl::StatusCode::kUnknown : row->code;
}

absl::Status MakeError(Reason reason, std::string text) {
  if (text.size() > kMaxMessageBytes) {
    text.resize(Utf8Prefix(text, kMaxMessageBytes - 3));
    text += "...";
  }
  absl::Status status(ReasonCode(reason), text);
  status.SetPayload(kReasonUrl, absl::Cord(std::string(ReasonName(reason))));
  return status;
}

Reason GetReason(const absl::Status& status) {
  if (status.ok()) return Reason::kNone;
  auto payload = status.GetPayload(kReasonUrl);
  if (payload.has_value()) return ReasonFromName(std::string(*payload));
  return Reason::kNone;
}

absl::Status WithContext(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  std::string text = fmt::format("{}: {}", context, StdString(status.message()));
  Reason reason = GetReason(status);
  if (reason != Reason::kNone) return MakeError(reason, std::move(text));
  return absl::Status(status.code(), text);
}

std::string ErrorText(const absl::Status& status) {
  if (status.ok()) return "OK";
  Reason reason = GetReason(status);
  std::string name = reason == Reason::kNone ? absl::StatusCodeToString(status.code())
                                             : std::string(ReasonName(reason));
  return fmt::format("{}: {}", name, StdString(status.message()));
}

std::string Printable(std::string_view name) {
  std::string out;
  size_t at = 0;
  while (at < name.size()) {
    if (out.size() > kMaxNameInMessageBytes - 4) return out + "...";
    size_t length = Utf8CharLength(name.substr(at));
    unsigned char c = static_cast<unsigned char>(name[at]);
    if (length == 0 || c < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", c);
      ++at;
    } else if (length == 1 && (c == '\'' || c == '\\')) {
      out += '\\';
      out += name[at++];
    } else {
      out += name.substr(at, length);
      at += length;
    }
  }
  return out;
}

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace tilekv
