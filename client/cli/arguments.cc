#include "client/cli/arguments.h"

#include <charconv>
#include <limits>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

bool IsFlagOf(const CommandSpec& spec, std::string_view name) {
  for (const FlagSpec& flag : spec.flags) {
    if (flag.name == name) return true;
  }
  for (const FlagSpec& flag : GlobalFlags()) {
    if (flag.name == name) return true;
  }
  return false;
}

absl::StatusOr<std::optional<int64_t>> ParseEdge(std::string_view text, std::string_view whole) {
  if (text.empty()) return std::optional<int64_t>();
  bool negative = text.front() == '-';
  absl::StatusOr<uint64_t> size = ParseSize(negative ? text.substr(1) : text);
  if (!size.ok() || *size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("'{}' is not a range of bytes; write A:B, A: or :B, for example 0:4096, -1KiB:",
                    Printable(whole)));
  }
  auto value = static_cast<int64_t>(*size);
  return std::optional<int64_t>(negative ? -value : value);
}

uint64_t Clamp(int64_t edge, uint64_t length) {
  if (edge >= 0) return std::min(static_cast<uint64_t>(edge), length);
  uint64_t back = static_cast<uint64_t>(-edge);
  return back > length ? 0 : length - back;
}

}  // namespace

const std::vector<std::string>& Arguments::Values(std::string_view flag) const {
  static const std::vector<std::string> none;
  TILEKV_CHECK(IsFlagOf(*spec_, flag));
  auto found = flags_.find(flag);
  return found == flags_.end() ? none : found->second;
}

std::optional<std::string> Arguments::Value(std::string_view flag) const {
  const std::vector<std::string>& values = Values(flag);
  if (values.empty()) return std::nullopt;
  return values.back();
}

absl::StatusOr<std::optional<uint64_t>> Arguments::Number(std::string_view flag) const {
  std::optional<std::string> text = Value(flag);
  if (!text.has_value()) return std::optional<uint64_t>();
  TILEKV_ASSIGN_OR_RETURN(uint64_t number, ParseNumber(flag, *text));
  return std::optional<uint64_t>(number);
}

absl::StatusOr<std::optional<uint64_t>> Arguments::Size(std::string_view flag) const {
  std::optional<std::string> text = Value(flag);
  if (!text.has_value()) return std::optional<uint64_t>();
  absl::StatusOr<uint64_t> size = ParseSize(*text);
  if (!size.ok()) return WithContext(size.status(), flag);
  return std::optional<uint64_t>(*size);
}

std::vector<std::string> Arguments::WordsFrom(size_t index) const {
  if (index >= words_.size()) return {};
  return {words_.begin() + static_cast<ptrdiff_t>(index), words_.end()};
}

ByteRange RangeText::Resolve(uint64_t length) const {
  uint64_t from = Clamp(begin.value_or(0), length);
  uint64_t to = end.has_value() ? Clamp(*end, length) : length;
  return {from, to > from ? to - from : 0};
}

absl::StatusOr<RangeText> ParseRange(std::string_view text) {
  size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("'{}' is not a range of bytes; write A:B, A: or :B", Printable(text)));
  }
  RangeText range;
  TILEKV_ASSIGN_OR_RETURN(range.begin, ParseEdge(text.substr(0, colon), text));
  TILEKV_ASSIGN_OR_RETURN(range.end, ParseEdge(text.substr(colon + 1), text));
  return range;
}

absl::StatusOr<uint64_t> ParseNumber(std::string_view what, std::string_view text) {
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("{} takes a number, not '{}'", what, Printable(text)));
  }
  return number;
}

}  // namespace tilekv
