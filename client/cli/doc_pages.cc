#include "client/cli/doc_pages.h"

#include <cctype>

#include "client/cli/command_table.h"
#include "client/cli/topics.h"
#include "fmt/format.h"
#include "kvstore/base/reasons.h"

namespace tilekv {
namespace {

std::string FlagLine(const FlagSpec& flag) {
  return fmt::format("- `{}{}{}{}`: {}\n", flag.short_name.empty() ? "" : flag.short_name + ", ",
                     flag.name, flag.value.empty() ? "" : " " + flag.value,
                     flag.repeats ? " ..." : "", flag.help);
}

std::string CommandSection(const CommandSpec& command) {
  std::string summary = command.summary;
  summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
  std::string out = fmt::format("### tilekv {}\n\n    tilekv {}\n\n{}.", command.path(),
                                command.Usage(), summary);
  if (!command.help.empty()) out += " " + command.help;
  out += "\n";
  if (!command.arguments.empty() || !command.flags.empty()) out += "\n";
  for (const ArgumentSpec& argument : command.arguments) {
    out += fmt::format("- `{}`: {}\n", argument.name, argument.help);
  }
  for (const FlagSpec& flag : command.flags) out += FlagLine(flag);
  if (!command.examples.empty()) out += "\n";
  for (const ExampleSpec& example : command.examples) {
    out += fmt::format("    {}{}\n", example.command,
                       example.text.empty() ? "" : "  # " + example.text);
  }
  return out + "\n";
}

// What stands in a table's cell: a bar would end it.
std::string Cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string CliPage() {
  std::string out =
      "# The command line\n\n"
      "`tilekv` is one program: a noun, a verb, arguments, options. It works on a store, which is "
      "a "
      "directory or a server.\n"
      "`tilekv help`, `tilekv help NOUN VERB` and `tilekv help TOPIC` show what stands here, "
      "[errors.md](errors.md) the errors.\n\n"
      "This page comes from the program's own tables; `tilekv-docs cli` prints it.\n";
  for (const TopicSpec& topic : Topics()) {
    out += fmt::format("\n## {}\n\n{}", topic.title, topic.text);
  }
  out += "\n## Commands\n\nOptions of every command, before or after it:\n\n";
  for (const FlagSpec& flag : GlobalFlags()) out += FlagLine(flag);
  out += "\n";
  for (const CommandSpec& command : Commands()) out += CommandSection(command);
  out.pop_back();  // the empty line after the last section
  return out;
}

std::string ErrorsPage() {
  std::string out =
      "# Errors\n\n"
      "An error reads `REASON: text`: the reason is for programs and stable, the text names what, "
      "which, how much and what to do.\n"
      "\"Again\" says whether the same call may be tried again as it is. gRPC errors carry reason "
      "and figures in `grpc-status-details-bin`\n"
      "beside their code; both programs exit with the exit code. A missing value or an unmet "
      "condition of a library call is a result, not an\n"
      "error.\n\n"
      "This page comes from the table of reasons in `kvstore/base/reasons.cc`; `tilekv-docs "
      "errors` prints it.\n\n"
      "| reason | meaning | what to do | again | gRPC code | exit code |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  for (const ReasonInfo& info : AllReasons()) {
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", info.name, Cell(info.meaning),
                       Cell(info.remedy), Cell(info.retry), absl::StatusCodeToString(info.code),
                       info.exit_code);
  }
  return out;
}

}  // namespace tilekv
