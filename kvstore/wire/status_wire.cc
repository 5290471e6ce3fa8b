#include "kvstore/wire/status_wire.h"

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"
#include "tilekv/v1/types.pb.h"

namespace tilekv {
namespace {

// A message of gRPC's must be UTF-8; ours are, but a library's text inside of one may not be.
std::string ValidText(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t length = Utf8CharLength(text.substr(at));
    if (length == 0) {
      out += '?';
      ++at;
    } else {
      out += text.substr(at, length);
      at += length;
    }
  }
  return out;
}

// What gRPC's texts of a failed connection come down to; the whole text where it is none of them.
std::string CauseOf(std::string_view message) {
  struct Known {
    std::string_view part;
    std::string_view cause;
  };
  constexpr Known kKnown[] = {
      {"Connection refused", "Connection refused"},
      {"No route to host", "no route to host"},
      {"Network is unreachable", "network is unreachable"},
      {"HTTP/2", "what answers there does not speak gRPC; is it the port of --http?"},
      {"http1", "what answers there does not speak gRPC; is it the port of --http?"},
      {"DNS resolution failed", "its name cannot be resolved"},
      {"C-ares", "its name cannot be resolved"},
      {"Socket closed", "the connection was closed"},
      {"Connection reset", "the connection was reset"},
  };
  for (const Known& known : kKnown) {
    if (message.find(known.part) != std::string_view::npos) return std::string(known.cause);
  }
  return std::string(message);
}

// What an error without a reason means: it was made by gRPC itself, not by a node.
absl::Status CarrierError(absl::StatusCode code, std::string_view message, std::string_view node) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
      return MakeError(
          Reason::kNodeUnavailable,
          fmt::format(
              "node {} cannot be reached ({}). Check that tilekv-server runs there and that "
              "the address is right",
              node, CauseOf(message)));
    case absl::StatusCode::kDeadlineExceeded:
      return MakeError(Reason::kDeadlineExceeded,
                       fmt::format("node {} did not answer in time", node));
    case absl::StatusCode::kCancelled:
      return MakeError(Reason::kCancelled, fmt::format("the call to node {} was cancelled", node));
    case absl::StatusCode::kResourceExhausted:
      // Not a lack of anything: tried again it is as large.
      if (message.find("larger than max") != std::string_view::npos) {
        return MakeError(Reason::kInvalidArgument,
                         fmt::format("node {}: {}. Ask for less at once", node, message));
      }
      return MakeError(Reason::kOverloaded, fmt::format("node {}: {}", node, message));
    case absl::StatusCode::kUnauthenticated:
      return MakeError(Reason::kUnauthenticated, fmt::format("node {}: {}", node, message));
    case absl::StatusCode::kPermissionDenied:
      return MakeError(Reason::kPermissionDenied, fmt::format("node {}: {}", node, message));
    case absl::StatusCode::kUnimplemented:
      return MakeError(
          Reason::kInternal,
          fmt::format("node {} does not know this call ({}): another version, or another service",
                      node, message));
    default:
      return MakeError(Reason::kInternal, fmt::format("node {}: {}", node, message));
  }
}

}  // namespace

WireStatus StatusToWire(const absl::Status& status) {
  WireStatus wire;
  if (status.ok()) return wire;
  wire.code = static_cast<int>(status.code());
  wire.message = ValidText({status.message().data(), status.message().size()});
  wire.message.resize(Utf8Prefix(wire.message, kMaxMessageBytes));
  v1::ErrorDetail detail;
  Reason reason = GetReason(status);
  detail.set_reason(std::string(ReasonName(reason == Reason::kNone ? Reason::kInternal : reason)));
  wire.details = detail.SerializeAsString();
  return wire;
}

absl::Status StatusFromWire(int code, std::string_view message, std::string_view details,
                            std::string_view node) {
  if (code == 0) return absl::OkStatus();
  v1::ErrorDetail detail;
  if (!details.empty() && detail.ParseFromArray(details.data(), static_cast<int>(details.size()))) {
    Reason reason = ReasonFromName(detail.reason());
    if (reason != Reason::kNone) return MakeError(reason, std::string(message));
    // A reason of a later version: its code still says what kind of error it is.
    return absl::Status(static_cast<absl::StatusCode>(code),
                        fmt::format("{}: {}", Printable(detail.reason()), message));
  }
  return CarrierError(static_cast<absl::StatusCode>(code), message, node);
}

}  // namespace tilekv
