// tilekv completion: scripts for shells.
#include "client/cli/arguments.h"
#include "client/cli/command_table.h"
#include "client/cli/completion.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

absl::StatusOr<int> Completion(Context& context, const Arguments& arguments) {
  const std::string shell = arguments.Word(0);
  std::string script;
  if (shell == "bash") {
    script = BashCompletion();
  } else if (shell == "zsh") {
    script = ZshCompletion();
  } else if (shell == "fish") {
    script = FishCompletion();
  } else {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format("there is completion for bash, zsh and fish, not for '{}'", Printable(shell)));
  }
  TILEKV_RETURN_IF_ERROR(context.out().Write(script));
  return kExitDone;
}

}  // namespace

std::vector<CommandSpec> CompletionCommandSpecs() {
  return {
      {.verb = "completion",
       .arguments = {{"SHELL", "bash, zsh or fish", true, false, {"bash", "zsh", "fish"}}},
       .summary = "a script that completes this program's commands in a shell",
       .help = "Commands, options, and files where a command takes them. In ~/.bashrc or ~/.zshrc: "
               "source <(tilekv completion bash), or zsh; for fish write it to "
               "~/.config/fish/completions/tilekv.fish.",
       .examples = {{"tilekv completion bash", ""}},
       .handler = Completion},
  };
}

}  // namespace tilekv
