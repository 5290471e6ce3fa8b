// The one table of commands: parsing, help, completion and docs/cli.md come from it.
//
// A command is a noun and a verb ("kv get") or a word alone ("ls"). The table is immutable after
// its first use and thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tilekv {

class Arguments;
class Context;

struct FlagSpec {
  std::string name;        // "--range"
  std::string short_name;  // "-m", or ""
  std::string value;       // what stands for its value in help, "A:B"; "": a switch
  std::string help;
  bool repeats = false;
  std::vector<std::string> choices = {};  // words that completion offers
};
struct ArgumentSpec {
  std::string name;  // "KEY"
  std::string help;
  bool required = true;
  bool repeats = false;                   // the last one only
  std::vector<std::string> choices = {};  // words that completion offers
};
struct ExampleSpec {
  std::string command;
  std::string text;
};

// What a command does to the store.
enum class Access {
  kNone,
  kRead,    // runs beside a writer
  kChange,  // writes, but makes no store
  kWrite,   // makes the store where there is none
};

// Returns the exit code; an error is printed by the caller.
using Handler = absl::StatusOr<int> (*)(Context& context, const Arguments& arguments);

struct CommandSpec {
  std::string noun;  // "" for a word alone
  std::string verb;
  std::vector<ArgumentSpec> arguments;
  std::string summary;  // one line, no full stop
  std::string help;     // paragraphs
  std::vector<FlagSpec> flags;
  std::vector<ExampleSpec> examples;
  Access access = Access::kNone;
  Handler handler = nullptr;

  std::string path() const { return noun.empty() ? verb : noun + " " + verb; }
  // "kv get KEY [DST] [--range A:B]".
  std::string Usage() const;
};

struct NounSpec {
  std::string noun;
  std::string summary;
};

const std::vector<NounSpec>& Nouns();
const std::vector<CommandSpec>& Commands();
// Flags that every command takes, before or after it.
const std::vector<FlagSpec>& GlobalFlags();
// Null when there is none. `noun` is "" for a word alone.
const CommandSpec* FindCommand(std::string_view noun, std::string_view verb);
bool IsNoun(std::string_view word);
// The candidate nearest to `word` by edits; "" where none is near.
std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates);

// Parts of the table, by subject.
std::vector<CommandSpec> TopCommandSpecs();
std::vector<CommandSpec> KvCommandSpecs();
std::vector<CommandSpec> ModelFileCommandSpecs();
std::vector<CommandSpec> ModelDiffCommandSpecs();
std::vector<CommandSpec> ModelVersionCommandSpecs();
std::vector<CommandSpec> ManifestCommandSpecs();
std::vector<CommandSpec> TensorCommandSpecs();
std::vector<CommandSpec> StoreCommandSpecs();
std::vector<CommandSpec> ClusterCommandSpecs();
std::vector<CommandSpec> NodeCommandSpecs();
std::vector<CommandSpec> CompletionCommandSpecs();
CommandSpec PerfSpec();
// Of the store's commands.
CommandSpec StoreRecodeSpec();

}  // namespace tilekv
