#include "client/cli/cli.h"

#include "client/cli/exit_code.h"
#include "client/cli/help.h"
#include "client/cli/parse.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

void PrintError(const absl::Status& status, OutputFormat format, std::FILE* err) {
  std::string text = ErrorText(status);
  if (format == OutputFormat::kJson || format == OutputFormat::kJsonLines) {
    Json json;
    json["error"] = ReasonName(GetReason(status));
    json["message"] = std::string(status.message().data(), status.message().size());
    text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  text += "\n";
  std::fwrite(text.data(), 1, text.size(), err);
  std::fflush(err);
}

std::string HelpText(const CommandLine& line) {
  if (line.topic != nullptr) return line.topic->text;
  if (line.spec != nullptr) return CommandHelp(*line.spec);
  return line.help_noun.empty() ? ProgramHelp() : NounHelp(line.help_noun);
}

int ShowHelp(const CommandLine& line, const Surroundings& surroundings) {
  Output out(surroundings.out, OutputFormat::kTable, surroundings.terminal);
  absl::Status status = out.Write(HelpText(line));
  if (status.ok()) status = out.Flush();
  if (out.broken()) return kExitBrokenPipe;
  return ExitCodeOf(status);
}

}  // namespace

int RunCli(const std::vector<std::string>& words, const std::string& default_store,
           const Surroundings& surroundings) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(words, default_store);
  if (!line.ok()) {
    PrintError(line.status(), GuessFormat(words), surroundings.err);
    return kExitUsage;
  }
  if (line->help) return ShowHelp(*line, surroundings);

  Context context(line->options, line->spec->access, surroundings);
  absl::StatusOr<int> code = line->spec->handler(context, line->arguments);
  absl::Status status = code.status();
  if (absl::Status flushed = context.out().Flush(); status.ok()) status = flushed;
  if (context.out().broken()) return kExitBrokenPipe;
  if (!status.ok()) {
    PrintError(status, line->options.format, surroundings.err);
    return ExitCodeOf(status);
  }
  return *code;
}

}  // namespace tilekv
