#include "client/cli/parse.h"

#include <algorithm>
#include <map>
#include <memory>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/machine_memory.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

absl::Status Bad(std::string text) { return MakeError(Reason::kInvalidArgument, std::move(text)); }

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  std::string nearest = NearestWord(word, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

bool IsOption(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

const FlagSpec* FindFlag(const std::vector<FlagSpec>& flags, std::string_view word) {
  for (const FlagSpec& flag : flags) {
    if (word == flag.name || (!flag.short_name.empty() && word == flag.short_name)) return &flag;
  }
  return nullptr;
}

// Of a global flag before the command: how many words it takes, 0 where it is none.
size_t GlobalFlagWords(std::string_view word) {
  const FlagSpec* flag = FindFlag(GlobalFlags(), word.substr(0, word.find('=')));
  if (flag != nullptr) {
    bool joined = word.find('=') != std::string_view::npos;
    return flag->value.empty() || joined ? 1 : 2;
  }
  // "-ojson".
  if (word.size() > 2 && word[1] != '-' && FindFlag(GlobalFlags(), word.substr(0, 2)) != nullptr) {
    return 1;
  }
  return 0;
}

std::vector<std::string> CommandWords(std::string_view noun) {
  std::vector<std::string> words;
  for (const CommandSpec& command : Commands()) {
    if (command.noun == noun) words.push_back(command.verb);
  }
  if (noun.empty()) {
    for (const NounSpec& spec : Nouns()) words.push_back(spec.noun);
  }
  return words;
}

std::string Joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

// Reads one command's words with CLI11. A class of its own because it fills Arguments.
class CommandLineParser {
 public:
  explicit CommandLineParser(const CommandSpec& spec) : spec_(spec) {
    app_.set_help_flag("");
    app_.allow_extras(true);
    for (const FlagSpec& flag : GlobalFlags()) AddFlag(flag, false);
    for (const FlagSpec& flag : spec.flags) AddFlag(flag, flag.repeats);
    for (const ArgumentSpec& argument : spec.arguments) AddArgument(argument);
  }

  absl::StatusOr<Arguments> Parse(std::vector<std::string> words) {
    words = SplitEmptyValues(std::move(words));
    std::reverse(words.begin(), words.end());  // as CLI11 wants it
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      return Bad(fmt::format("{} (in 'tilekv {}')", error.what(), spec_.path()));
    }
    Arguments out;
    out.spec_ = &spec_;
    for (const auto& [flag, option] : flags_) {
      if (option->count() == 0) continue;
      std::vector<std::string> values = option->results();
      if (values.size() > 1 && !repeats_[flag]) {
        return Bad(fmt::format("{} is given {} times", flag, values.size()));
      }
      for (const std::string& value : values) {
        if (flags_.count(value) != 0) {
          return Bad(fmt::format("{} needs a value, and '{}' is an option", flag, value));
        }
      }
      out.flags_[flag] = std::move(values);
    }
    for (CLI::Option* option : arguments_) {
      for (const std::string& word : option->results()) out.words_.push_back(word);
    }
    if (out.Has("--help")) return out;
    TILEKV_RETURN_IF_ERROR(CheckRest());
    TILEKV_RETURN_IF_ERROR(CheckRequired(out));
    return out;
  }

 private:
  // "--slice=" is an empty value; CLI11 would take the next word.
  static std::vector<std::string> SplitEmptyValues(std::vector<std::string> words) {
    std::vector<std::string> out;
    for (std::string& word : words) {
      bool empty =
          word.size() > 3 && word.substr(0, 2) == "--" && word.find('=') == word.size() - 1;
      if (empty) word.pop_back();
      out.push_back(std::move(word));
      if (empty) out.emplace_back();
    }
    return out;
  }

  void AddFlag(const FlagSpec& flag, bool repeats) {
    std::string names = flag.short_name.empty() ? flag.name : flag.short_name + "," + flag.name;
    CLI::Option* option = nullptr;
    if (flag.value.empty()) {
      option = app_.add_flag(names);
      repeats = true;
    } else {
      values_.push_back(std::make_unique<std::vector<std::string>>());
      option = app_.add_option(names, *values_.back())->allow_extra_args(false);
    }
    repeats_[flag.name] = repeats;
    flags_[flag.name] = option;
  }

  void AddArgument(const ArgumentSpec& argument) {
    values_.push_back(std::make_unique<std::vector<std::string>>());
    CLI::Option* option = app_.add_option(argument.name, *values_.back());
    // One word each unless it repeats; CLI11 would split "[a,b]" of an open list, which no name
    // that repeats can be.
    if (!argument.repeats) option->expected(1)->allow_extra_args(false);
    arguments_.push_back(option);
  }

  absl::Status CheckRest() {
    for (const std::string& word : app_.remaining()) {
      if (word == "--") continue;
      if (IsOption(word)) {
        std::vector<std::string> names;
        for (const auto& entry : flags_) names.push_back(entry.first);
        return Bad(fmt::format("'tilekv {}' has no option '{}'{}", spec_.path(), Printable(word),
                               DidYouMean(word.substr(0, word.find('=')), names)));
      }
      return Bad(fmt::format("'{}' is one argument too many; usage: tilekv {}", Printable(word),
                             spec_.Usage()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckRequired(const Arguments& out) {
    for (size_t i = 0; i < spec_.arguments.size(); ++i) {
      if (spec_.arguments[i].required && i >= out.count()) {
        return Bad(
            fmt::format("{} is missing; usage: tilekv {}", spec_.arguments[i].name, spec_.Usage()));
      }
    }
    return absl::OkStatus();
  }

  const CommandSpec& spec_;
  CLI::App app_;
  std::map<std::string, CLI::Option*> flags_;
  std::map<std::string, bool> repeats_;
  std::vector<CLI::Option*> arguments_;
  std::vector<std::unique_ptr<std::vector<std::string>>> values_;
};

namespace {

absl::StatusOr<OutputFormat> ParseFormat(std::string_view text) {
  if (text == "table") return OutputFormat::kTable;
  if (text == "wide") return OutputFormat::kWide;
  if (text == "json") return OutputFormat::kJson;
  if (text == "jsonl") return OutputFormat::kJsonLines;
  return Bad(fmt::format("-o takes table, wide, json or jsonl, not '{}'", Printable(text)));
}

absl::Status ReadGlobals(const Arguments& arguments, const std::string& default_store,
                         GlobalOptions& options) {
  options.store = arguments.Value("--store").value_or(default_store);
  if (std::optional<std::string> format = arguments.Value("--output")) {
    TILEKV_ASSIGN_OR_RETURN(options.format, ParseFormat(*format));
  }
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> memory, arguments.Size("--memory"));
  options.memory_bytes = memory.value_or(DefaultClientMemoryBytes());
  if (options.memory_bytes < kLeastMemoryBytes) {
    return Bad(fmt::format("--memory is {}; the least is {}", FormatSizeShort(options.memory_bytes),
                           FormatSizeShort(kLeastMemoryBytes)));
  }
  options.quiet = arguments.Has("--quiet");
  options.yes = arguments.Has("--yes");
  return absl::OkStatus();
}

// Where the command's words are, its noun and verb.
struct Found {
  const CommandSpec* spec = nullptr;
  std::string noun;  // with no spec: help on it
  const TopicSpec* topic = nullptr;
  bool help = false;
  std::vector<std::string> rest;
};

absl::StatusOr<Found> FindVerb(const std::vector<std::string>& words, size_t at, Found found) {
  // Options may stand between noun and verb too.
  size_t verb = at + 1;
  while (verb < words.size() && IsOption(words[verb])) {
    if (words[verb] == "--help" || words[verb] == "-h") {
      found.help = true;
      return found;
    }
    size_t taken = GlobalFlagWords(words[verb]);
    if (taken == 0) {
      return Bad(
          fmt::format("'{}' stands before the verb; write tilekv {} VERB with VERB one of {}",
                      Printable(words[verb]), found.noun, Joined(CommandWords(found.noun))));
    }
    verb += taken;
  }
  if (verb >= words.size()) {
    return Bad(fmt::format("'tilekv {0}' needs a verb: {1}", found.noun,
                           Joined(CommandWords(found.noun))));
  }
  if (words[verb] == "help") {
    found.help = true;
    return found;
  }
  found.spec = FindCommand(found.noun, words[verb]);
  if (found.spec == nullptr) {
    std::vector<std::string> verbs = CommandWords(found.noun);
    return Bad(fmt::format("'tilekv {} {}' is no command{}; verbs of {}: {}", found.noun,
                           Printable(words[verb]), DidYouMean(words[verb], verbs), found.noun,
                           Joined(verbs)));
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (i != at && i != verb) found.rest.push_back(words[i]);
  }
  return found;
}

// "help", "help kv", "help kv get", "help names".
absl::StatusOr<Found> FindHelp(const std::vector<std::string>& words, size_t at) {
  Found found;
  found.help = true;
  if (at + 1 >= words.size()) return found;
  const std::string& word = words[at + 1];
  found.topic = FindTopic(word);
  if (found.topic != nullptr) return found;
  if (IsNoun(word)) {
    found.noun = word;
    if (at + 2 >= words.size()) return found;
    found.spec = FindCommand(word, words[at + 2]);
  } else {
    found.spec = FindCommand("", word);
  }
  if (found.spec == nullptr) {
    return Bad(fmt::format("there is no help on '{}'; 'tilekv --help' lists the commands",
                           Printable(words.back())));
  }
  return found;
}

absl::StatusOr<Found> FindCommandWords(const std::vector<std::string>& words) {
  Found found;
  size_t at = 0;
  while (at < words.size() && IsOption(words[at])) {
    if (words[at] == "--help" || words[at] == "-h") {
      found.help = true;
      return found;
    }
    if (words[at] == "--version") {
      found.spec = FindCommand("", "version");
      for (size_t i = 0; i < words.size(); ++i) {
        if (i != at) found.rest.push_back(words[i]);
      }
      return found;
    }
    size_t taken = GlobalFlagWords(words[at]);
    if (taken == 0) {
      return Bad(
          fmt::format("'{}' stands before the command; write tilekv COMMAND {}, or see "
                      "'tilekv --help'",
                      Printable(words[at]), Printable(words[at])));
    }
    at += taken;
  }
  if (at >= words.size()) {
    if (!words.empty()) return Bad("a command is missing; 'tilekv --help' lists them");
    found.help = true;
    return found;
  }
  const std::string& word = words[at];
  if (word == "help") return FindHelp(words, at);
  if (IsNoun(word)) {
    found.noun = word;
    return FindVerb(words, at, std::move(found));
  }
  found.spec = FindCommand("", word);
  if (found.spec == nullptr) {
    return Bad(fmt::format("'{}' is no command{}; 'tilekv --help' lists them", Printable(word),
                           DidYouMean(word, CommandWords(""))));
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (i != at) found.rest.push_back(words[i]);
  }
  return found;
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& words,
                                             const std::string& default_store) {
  TILEKV_ASSIGN_OR_RETURN(Found found, FindCommandWords(words));
  CommandLine line;
  line.spec = found.spec;
  line.help_noun = found.noun;
  line.topic = found.topic;
  line.help = found.help;
  if (line.help) return line;
  CommandLineParser parser(*found.spec);
  TILEKV_ASSIGN_OR_RETURN(line.arguments, parser.Parse(std::move(found.rest)));
  if (line.arguments.Has("--help")) {
    line.help = true;
    return line;
  }
  TILEKV_RETURN_IF_ERROR(ReadGlobals(line.arguments, default_store, line.options));
  return line;
}

OutputFormat GuessFormat(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    std::string_view value;
    if ((word == "-o" || word == "--output") && i + 1 < words.size()) value = words[i + 1];
    if (word.substr(0, 9) == "--output=") value = word.substr(9);
    if (word.substr(0, 2) == "-o" && word.size() > 2) value = word.substr(2);
    absl::StatusOr<OutputFormat> format = ParseFormat(value);
    if (format.ok()) return *format;
  }
  return OutputFormat::kTable;
}

}  // namespace tilekv
