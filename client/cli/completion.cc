#include "client/cli/completion.h"

#include <utility>
#include <vector>

#include "client/cli/command_table.h"
#include "client/cli/topics.h"
#include "fmt/format.h"

namespace tilekv {
namespace {

struct Word {
  std::string word;
  std::string text;
};
using Words = std::vector<Word>;

// Where a command's words lead: "" (nothing typed yet), "kv" (a noun) or "kv get".
struct Level {
  std::string path;
  Words next;  // words that go on from here
};

std::vector<Level> Levels() {
  Level root{"", {}};
  Level help{"help", {}};
  for (const CommandSpec& command : Commands()) {
    if (command.noun.empty()) root.next.push_back({command.verb, command.summary});
  }
  std::vector<Level> levels;
  for (const NounSpec& noun : Nouns()) {
    root.next.push_back({noun.noun, noun.summary});
    Level level{noun.noun, {}};
    for (const CommandSpec& command : Commands()) {
      if (command.noun == noun.noun) level.next.push_back({command.verb, command.summary});
    }
    levels.push_back(std::move(level));
  }
  help.next = root.next;
  for (const TopicSpec& topic : Topics()) help.next.push_back({topic.name, topic.summary});
  root.next.push_back({"help", "more about a command, or a topic"});
  levels.push_back(std::move(help));
  levels.insert(levels.begin(), std::move(root));
  return levels;
}

bool TakesFile(std::string_view value) {
  return value == "SRC" || value == "DST" || value == "FILE" || value == "DIR" || value == "URI";
}

std::vector<std::string> NamesOf(const FlagSpec& flag) {
  std::vector<std::string> names = {flag.name};
  if (!flag.short_name.empty()) names.push_back(flag.short_name);
  return names;
}

std::string Joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// For between single quotes, in bash and zsh; fish takes a backslash instead.
std::string Quoted(std::string_view text, std::string_view quote = "'\\''") {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += quote;
    } else {
      out += c;
    }
  }
  return out;
}

// --- bash and zsh: `case` statements on "COMMAND:FLAG" and "COMMAND:NUMBER OF THE ARGUMENT"

// What completes the value of a flag, or an argument.
struct Branch {
  std::string pattern;
  bool file = false;
  std::vector<std::string> choices;
};

void AddFlagBranch(const std::string& path, const FlagSpec& flag, std::vector<Branch>& out) {
  if (flag.value.empty()) return;
  std::string pattern;
  for (const std::string& name : NamesOf(flag)) {
    if (!pattern.empty()) pattern += " | ";
    pattern += path.empty() ? "*:" + name : fmt::format("'{}:{}'", path, name);
  }
  out.push_back({pattern, TakesFile(flag.value), flag.choices});
}

std::vector<Branch> FlagBranches() {
  std::vector<Branch> out;
  for (const FlagSpec& flag : GlobalFlags()) AddFlagBranch("", flag, out);
  for (const CommandSpec& command : Commands()) {
    for (const FlagSpec& flag : command.flags) AddFlagBranch(command.path(), flag, out);
  }
  return out;
}

std::vector<Branch> ArgumentBranches() {
  std::vector<Branch> out;
  for (const CommandSpec& command : Commands()) {
    for (size_t i = 0; i < command.arguments.size(); ++i) {
      const ArgumentSpec& argument = command.arguments[i];
      bool file = TakesFile(argument.name);
      if (!file && argument.choices.empty()) continue;
      out.push_back({fmt::format("'{}:{}'", command.path(), i), file, argument.choices});
    }
  }
  return out;
}

std::string Cases(const std::vector<Branch>& branches) {
  std::string out;
  for (const Branch& branch : branches) {
    std::string action = ":";
    if (branch.file) action = "_tilekv_files";
    if (!branch.choices.empty()) action = "_tilekv_offer " + Joined(branch.choices);
    out += fmt::format("    {}) {} ;;\n", branch.pattern, action);
  }
  return out;
}

// Of the words whose next one is their value.
std::string ValueFlagPatterns() {
  std::string out;
  for (const Branch& branch : FlagBranches()) {
    out += (out.empty() ? "" : " | ") + branch.pattern;
  }
  return out;
}

// Options of each command, and the words that go on, as assignments to `flags` and `next`.
std::string WordCases() {
  std::string out;
  for (const Level& level : Levels()) {
    std::vector<std::string> words;
    for (const Word& word : level.next) words.push_back(word.word);
    out += fmt::format("    '{}') next='{}' ;;\n", level.path, Joined(words));
  }
  for (const CommandSpec& command : Commands()) {
    std::vector<std::string> flags;
    for (const FlagSpec& flag : command.flags) flags.push_back(flag.name);
    if (!flags.empty()) {
      out += fmt::format("    '{}') flags='{}' ;;\n", command.path(), Joined(flags));
    }
  }
  return out;
}

std::string GlobalFlagNames() {
  std::vector<std::string> flags;
  for (const FlagSpec& flag : GlobalFlags()) flags.push_back(flag.name);
  return Joined(flags);
}

std::string NounPattern() {
  std::vector<std::string> nouns;
  for (const NounSpec& noun : Nouns()) nouns.push_back(noun.noun);
  return fmt::format("{}", fmt::join(nouns, " | "));
}

// The same in both shells: from the words before the one that is typed (`typed`, an array) to
// `command`, the number of its arguments so far, and the completion of the word `cur`.
constexpr char kCommonBody[] = R"(  local command='' count=0 skip='' word
  for word in "${typed[@]}"; do
    if [[ -n $skip ]]; then
      skip=''
      continue
    fi
    [[ -z $word ]] && continue
    case "$command:$word" in
    %VALUE_FLAGS%) skip=1 ;;
    *:-*) ;;
    help:*) count=9 ;;
    :*) command=$word ;;
    *)
      case $command in
      %NOUNS%) command="$command $word" ;;
      *) count=$((count + 1)) ;;
      esac
      ;;
    esac
  done
  if [[ -n $skip ]]; then
    case "$command:$prev" in
%FLAG_CASES%    esac
    return 0
  fi
  local next='' flags=''
  case $command in
%WORD_CASES%  esac
  if [[ $cur == -* ]]; then
    _tilekv_offer %FLAGS% %GLOBAL_FLAGS%
  elif [[ -n $next && $count == 0 ]]; then
    _tilekv_offer %NEXT%
  else
    case "$command:$count" in
%ARGUMENT_CASES%    esac
  fi
  return 0
)";

// `split`: what comes before the name of a variable whose words are to be told apart; zsh needs to
// be told to.
std::string CommonBody(const std::string& split) {
  const std::pair<std::string, std::string> parts[] = {
      {"%VALUE_FLAGS%", ValueFlagPatterns()},  {"%NOUNS%", NounPattern()},
      {"%FLAG_CASES%", Cases(FlagBranches())}, {"%WORD_CASES%", WordCases()},
      {"%FLAGS%", split + "flags}"},           {"%NEXT%", split + "next}"},
      {"%GLOBAL_FLAGS%", GlobalFlagNames()},   {"%ARGUMENT_CASES%", Cases(ArgumentBranches())},
  };
  std::string out = kCommonBody;
  for (const auto& [mark, text] : parts) {
    for (size_t at = out.find(mark); at != std::string::npos; at = out.find(mark)) {
      out.replace(at, mark.size(), text);
    }
  }
  return out;
}

// --- fish

// A line of `complete` that holds at `path`.
std::string FishLine(const std::string& path, const std::string& rest) {
  return fmt::format("complete -c tilekv -n '__tilekv_at \"{}\"' {}\n", path, rest);
}

std::string FishValue(bool file, const std::vector<std::string>& choices) {
  if (!choices.empty()) return fmt::format(" -x -a '{}'", Joined(choices));
  return file ? " -r -F" : " -x";
}

std::string FishFlag(const FlagSpec& flag) {
  std::string out = "-l " + flag.name.substr(2);
  if (!flag.short_name.empty()) out += " -s " + flag.short_name.substr(1);
  if (!flag.value.empty()) out += FishValue(TakesFile(flag.value), flag.choices);
  return out + fmt::format(" -d '{}'", Quoted(flag.help, "\\'"));
}

constexpr char kFishHead[] =
    R"(# Completion of tilekv in fish: tilekv completion fish > ~/.config/fish/completions/tilekv.fish

# What is typed so far: the command, and how many arguments it has.
function __tilekv_state
    set -l command ''
    set -l count 0
    set -l skip ''
    for word in (commandline -opc)[2..-1]
        if test -n "$skip"
            set skip ''
            continue
        end
        switch "$command:$word"
            case %VALUE_FLAGS%
                set skip 1
            case '*:-*'
            case 'help:*'
                set count 9
            case ':*'
                set command $word
            case '*'
                if contains -- "$command" %NOUNS%
                    set command "$command $word"
                else
                    set count (math $count + 1)
                end
        end
    end
    echo $command
    echo $count
end

# True in this command; with a number, at its argument of that number.
function __tilekv_at
    set -l state (__tilekv_state)
    test "$state[1]" = "$argv[1]"; or return 1
    test (count $argv) -lt 2; or test "$state[2]" = "$argv[2]"
end

complete -c tilekv -f
)";

std::string FishHead() {
  std::string patterns;
  for (const FlagSpec& flag : GlobalFlags()) {
    if (flag.value.empty()) continue;
    for (const std::string& name : NamesOf(flag)) patterns += fmt::format(" '*:{}'", name);
  }
  for (const CommandSpec& command : Commands()) {
    for (const FlagSpec& flag : command.flags) {
      if (flag.value.empty()) continue;
      for (const std::string& name : NamesOf(flag)) {
        patterns += fmt::format(" '{}:{}'", command.path(), name);
      }
    }
  }
  std::vector<std::string> nouns;
  for (const NounSpec& noun : Nouns()) nouns.push_back(noun.noun);
  std::string out = kFishHead;
  const std::string flags_mark = " %VALUE_FLAGS%", nouns_mark = "%NOUNS%";
  out.replace(out.find(flags_mark), flags_mark.size(), patterns);
  out.replace(out.find(nouns_mark), nouns_mark.size(), Joined(nouns));
  return out;
}

}  // namespace

std::string BashCompletion() {
  return R"(# Completion of tilekv in bash: source <(tilekv completion bash)
_tilekv_offer() { mapfile -t COMPREPLY < <(compgen -W "$*" -- "$cur"); }
_tilekv_files() {
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  compopt -o filenames 2>/dev/null
}
_tilekv() {
  # COMP_WORDS is cut at ':' and '=' too, which stand in stores and ranges.
  local typed cur prev line=${COMP_LINE:0:COMP_POINT}
  read -ra typed <<<"$line"
  [[ $line == *[[:space:]] ]] && typed+=('')
  cur=${typed[-1]}
  typed=("${typed[@]:1:${#typed[@]}-2}")
  # --output=js
  if [[ $cur == --*=* ]]; then
    typed+=("${cur%%=*}")
    cur=${cur#*=}
  fi
  prev=${typed[*]: -1}
  COMPREPLY=()
)" + CommonBody("${") +
         "}\ncomplete -F _tilekv tilekv\n";
}

std::string ZshCompletion() {
  return R"(#compdef tilekv
# Completion of tilekv in zsh: source <(tilekv completion zsh), after compinit
_tilekv_offer() { compadd -- "$@"; }
_tilekv_files() { _files; }
_tilekv() {
  local cur=${words[CURRENT]}
  local -a typed=("${(@)words[2,CURRENT-1]}")
  # --output=js
  if [[ $cur == --*=* ]]; then
    typed+=("${cur%%=*}")
    compset -P '*='
    cur=${cur#*=}
  fi
  local prev=${typed[-1]}
)" + CommonBody("${=") +
         "}\nif [[ ${funcstack[1]} == _tilekv ]]; then _tilekv \"$@\"; else compdef _tilekv "
         "tilekv; fi\n";
}

std::string FishCompletion() {
  std::string out = FishHead();
  for (const FlagSpec& flag : GlobalFlags()) {
    out += "complete -c tilekv " + FishFlag(flag) + "\n";
  }
  for (const Level& level : Levels()) {
    for (const Word& word : level.next) {
      out += fmt::format("complete -c tilekv -n '__tilekv_at \"{}\" 0' -a {} -d '{}'\n", level.path,
                         word.word, Quoted(word.text, "\\'"));
    }
  }
  for (const CommandSpec& command : Commands()) {
    for (const FlagSpec& flag : command.flags) out += FishLine(command.path(), FishFlag(flag));
    for (size_t i = 0; i < command.arguments.size(); ++i) {
      const ArgumentSpec& argument = command.arguments[i];
      std::string at =
          fmt::format("complete -c tilekv -n '__tilekv_at \"{}\" {}'", command.path(), i);
      if (!argument.choices.empty()) {
        out += fmt::format("{} -a '{}'\n", at, Joined(argument.choices));
      } else if (TakesFile(argument.name)) {
        out += at + " -F\n";
      }
    }
  }
  return out;
}

}  // namespace tilekv
