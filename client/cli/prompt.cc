#include "client/cli/prompt.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {

absl::Status AskToProceed(std::string_view plan, const PromptOptions& options, std::FILE* in,
                          std::FILE* err) {
  if (options.yes) return absl::OkStatus();
  if (!options.interactive) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("{}\nNobody can be asked here (not a terminal); pass -y to do it.", plan));
  }
  std::string question = fmt::format("{}\nGo on? [y/N] ", plan);
  std::fwrite(question.data(), 1, question.size(), err);
  std::fflush(err);
  std::string answer;
  for (int c = std::fgetc(in); c != EOF && c != '\n'; c = std::fgetc(in)) {
    if (answer.size() < 8) answer.push_back(static_cast<char>(c));
  }
  if (answer == "y" || answer == "Y" || answer == "yes" || answer == "Yes") return absl::OkStatus();
  return MakeError(Reason::kCancelled, "nothing was changed");
}

}  // namespace tilekv
