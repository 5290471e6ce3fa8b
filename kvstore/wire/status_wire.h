// An error on its way between two processes: code, text, and the machine-readable reason as a
// serialized ErrorDetail, which gRPC carries in grpc-status-details-bin. Used by both ends, without
// gRPC. Pure functions, thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tilekv {

// Trailing metadata of an error after which its caller may try again: the least wait before, in
// milliseconds. The name is the one that other clients of gRPC know.
inline constexpr char kRetryAfterTrailer[] = "grpc-retry-pushback-ms";

struct WireStatus {
  int code = 0;         // absl::StatusCode and grpc::StatusCode have the same numbers
  std::string message;  // valid UTF-8, at most kMaxMessageBytes: trailers hold about 8 KiB in all
  std::string details;  // ErrorDetail; empty where there is no reason
};

WireStatus StatusToWire(const absl::Status& status);

// The error as it was at the other end. One without a reason of ours was made by the carrier; it
// gets the reason that its code stands for, and `node` (an address) is named in its text.
absl::Status StatusFromWire(int code, std::string_view message, std::string_view details,
                            std::string_view node);

}  // namespace tilekv
