#include "kvstore/base/status.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/reasons.h"
#include "kvstore/base/utf8.h"

namespace tilekv {
namespace {

constexpr char kReasonUrl[] = "tilekv.v1/reason";

std::string StdString(absl::string_view text) { return std::string(text.data(), text.size()); }

}  // namespace

std::string_view ReasonName(Reason reason) {
  const ReasonInfo* info = FindReason(reason);
  return info == nullptr ? "UNKNOWN" : info->name;
}

Reason ReasonFromName(std::string_view name) {
  for (const ReasonInfo& info : AllReasons()) {
    if (name == info.name) return info.reason;
  }
  return Reason::kNone;
}

absl::StatusCode ReasonCode(Reason reason) {
  const ReasonInfo* info = FindReason(reason);
  return info == nullptr ? absl::StatusCode::kUnknown : info->code;
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
