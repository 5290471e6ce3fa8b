// The settings of tilekv-server: one table, from which the flags, the environment's variables, the
// configuration file and --print-config come.
//
// A setting NAME is the flag --NAME, the variable TILEKV_NAME (upper case, '_' for '-') and the key
// NAME of the file that --config or TILEKV_CONFIG names. The first of flag, environment, file and
// default that has it decides. The file is CLI11's form of TOML: a line for each setting,
// `NAME = VALUE` or `NAME = "VALUE"`, and comments from '#' on.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/node_process.h"

namespace tilekv {

struct ServerSetting {
  std::string name;   // "data-dir"
  std::string value;  // what stands for its value in help, "DIR"
  std::string help;
  std::string default_text;  // "": not set where nobody sets it
  std::string unset_help;    // what that means; "": it must be set
  // INVALID_ARGUMENT says what is wrong with the text.
  absl::Status (*apply)(std::string_view text, NodeProcessOptions& options) = nullptr;

  std::string flag() const { return "--" + name; }
  std::string variable() const;
};
// In the order of help. Immutable, thread-safe.
const std::vector<ServerSetting>& ServerSettings();

struct EffectiveSetting {
  const ServerSetting* setting = nullptr;
  std::string text;    // "" where nobody sets it
  std::string origin;  // "flag", "environment TILEKV_MEMORY", "node.toml, line 3", "default"
};

enum class ServerAction { kServe, kPrintConfig, kCheckConfig, kShowText };

struct ServerCommand {
  ServerAction action = ServerAction::kServe;
  std::string text;  // of kShowText: help, or the version
  NodeProcessOptions options;
  std::vector<EffectiveSetting> settings;
};

// `words` without the program's name; `environment` gives a variable's value, null where there is
// none; one that is empty counts as not set. Errors are INVALID_ARGUMENT and name the flag, the
// variable, or file and line. Reads the configuration file, nothing else. That a value is missing,
// or not one that a node can work with, is found by CheckServerCommand.
absl::StatusOr<ServerCommand> ParseServerCommand(
    const std::vector<std::string>& words,
    const std::function<const char*(const char*)>& environment);
// What can be told without touching data or network: INVALID_ARGUMENT.
absl::Status CheckServerCommand(const ServerCommand& command);
// A configuration file of the values, each with its origin; a comment in the place of one that no
// line of a file can hold.
std::string ConfigText(const ServerCommand& command);

}  // namespace tilekv
