// From argv to a command and its arguments. CLI11 reads the options of one command; which command
// it is, is decided here, so that an argument that happens to be called like a command stays an
// argument.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/topics.h"

namespace tilekv {

enum class OutputFormat { kTable, kWide, kJson, kJsonLines };

struct GlobalOptions {
  std::string store;  // "" where neither --store nor TILEKV_STORE is given
  OutputFormat format = OutputFormat::kTable;
  uint64_t memory_bytes = 0;
  bool quiet = false;
  bool yes = false;
};

struct CommandLine {
  const CommandSpec* spec = nullptr;  // null: help on `help_noun` or `topic`, or on the program
  std::string help_noun;
  const TopicSpec* topic = nullptr;
  bool help = false;
  GlobalOptions options;
  Arguments arguments;
};

// `words` without the program's name. Errors are INVALID_ARGUMENT and say what to type.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& words,
                                             const std::string& default_store);
// The format that was asked for, as far as it can be told from words that may not parse: for
// errors.
OutputFormat GuessFormat(const std::vector<std::string>& words);

}  // namespace tilekv
