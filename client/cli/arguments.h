// The command line of one command, read: flags and arguments as texts, and typed readings of them.
// Immutable after parsing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/command_table.h"
#include "kvstore/kv_store.h"

namespace tilekv {

class Arguments {
 public:
  // Flags must be of the command's table: asking for another one is a programmer's error.
  bool Has(std::string_view flag) const { return !Values(flag).empty(); }
  std::optional<std::string> Value(std::string_view flag) const;
  const std::vector<std::string>& Values(std::string_view flag) const;
  // INVALID_ARGUMENT names the flag.
  absl::StatusOr<std::optional<uint64_t>> Number(std::string_view flag) const;
  absl::StatusOr<std::optional<uint64_t>> Size(std::string_view flag) const;

  size_t count() const { return words_.size(); }
  // "" where it was left out.
  std::string Word(size_t index) const { return index < words_.size() ? words_[index] : ""; }
  std::vector<std::string> WordsFrom(size_t index) const;

  const CommandSpec& spec() const { return *spec_; }

 private:
  friend class CommandLineParser;
  const CommandSpec* spec_ = nullptr;
  std::map<std::string, std::vector<std::string>, std::less<>> flags_;
  std::vector<std::string> words_;
};

// "A:B", "A:", ":B": bytes A to B, B not included; sizes such as 64KiB are taken. With a negative
// number it counts from the value's end, whose length must then be given.
struct RangeText {
  std::optional<int64_t> begin;
  std::optional<int64_t> end;
  bool NeedsLength() const { return begin.value_or(0) < 0 || end.value_or(0) < 0; }
  // Within [0, length]; an empty range where begin is not before end.
  ByteRange Resolve(uint64_t length) const;
};
absl::StatusOr<RangeText> ParseRange(std::string_view text);

absl::StatusOr<uint64_t> ParseNumber(std::string_view what, std::string_view text);

}  // namespace tilekv
