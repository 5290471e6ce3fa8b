#include "kvstore/base/retry_hint.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"

namespace tilekv {
namespace {

constexpr char kHintUrl[] = "tilekv.v1/retry";
constexpr char kInVain[] = "in vain";

}  // namespace

absl::Status WithRetryAfter(absl::Status status, int64_t after_ms) {
  status.SetPayload(kHintUrl, absl::Cord(std::to_string(std::max<int64_t>(0, after_ms))));
  return status;
}

absl::Status WithoutRetry(absl::Status status) {
  status.SetPayload(kHintUrl, absl::Cord(kInVain));
  return status;
}

RetryHint GetRetryHint(const absl::Status& status) {
  RetryHint hint;
  auto payload = status.GetPayload(kHintUrl);
  if (!payload.has_value()) return hint;
  std::string text(*payload);
  hint.in_vain = text == kInVain;
  if (!hint.in_vain && !absl::SimpleAtoi(text, &hint.after_ms)) hint.after_ms = 0;
  return hint;
}

}  // namespace tilekv
