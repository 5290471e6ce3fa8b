#include "client/cli/help.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "client/cli/topics.h"
#include "fmt/format.h"

namespace tilekv {
namespace {

constexpr size_t kHelpWidth = 100;
constexpr size_t kTermWidth = 30;  // a longer term has its text on the next line

using Terms = std::vector<std::pair<std::string, std::string>>;

std::string TermList(const Terms& terms) {
  size_t width = 0;
  for (const auto& [term, text] : terms) {
    if (term.size() <= kTermWidth) width = std::max(width, term.size());
  }
  std::string out;
  for (const auto& [term, text] : terms) {
    std::string wrapped = WrapText(text, width + 4, kHelpWidth);
    if (term.size() > width) {
      out += "  " + term + "\n" + wrapped;
    } else if (text.empty()) {
      out += "  " + term + "\n";
    } else {
      out += fmt::format("  {:<{}}  {}", term, width, wrapped.substr(width + 4));
    }
  }
  return out;
}

std::string FlagTerm(const FlagSpec& flag) {
  std::string term = flag.short_name.empty() ? flag.name : flag.short_name + ", " + flag.name;
  if (!flag.value.empty()) term += " " + flag.value;
  if (flag.repeats) term += " ...";
  return term;
}

std::string GlobalFlagList() {
  Terms terms;
  for (const FlagSpec& flag : GlobalFlags()) terms.emplace_back(FlagTerm(flag), flag.help);
  return "Options of every command:\n" + TermList(terms);
}

std::string CommandList(std::string_view noun) {
  Terms terms;
  for (const CommandSpec& command : Commands()) {
    if (command.noun == noun) terms.emplace_back(command.path(), command.summary);
  }
  return TermList(terms);
}

}  // namespace

std::string WrapText(std::string_view text, size_t indent, size_t width) {
  std::string out;
  std::string line;
  auto flush = [&] {
    if (!line.empty()) out += std::string(indent, ' ') + line;
    out += '\n';
    line.clear();
  };
  size_t at = 0;
  while (at < text.size()) {
    size_t end = std::min(text.find_first_of(" \n", at), text.size());
    std::string_view word = text.substr(at, end - at);
    if (!word.empty()) {
      if (!line.empty() && indent + line.size() + 1 + word.size() > width) flush();
      if (!line.empty()) line += ' ';
      line += word;
    }
    if (end < text.size() && text[end] == '\n') flush();
    at = end + 1;
  }
  if (!line.empty()) flush();
  return out;
}

std::string ProgramHelp() {
  std::string out =
      "TileKV: a key-value store that keeps large tensors in tiles.\n\n"
      "Usage: tilekv COMMAND [ARGUMENTS] [OPTIONS]\n\nCommands:\n" +
      CommandList("");
  for (const NounSpec& noun : Nouns()) {
    out += fmt::format("\n{}\n", noun.summary) + CommandList(noun.noun);
  }
  out += "\n" + GlobalFlagList();
  Terms topics;
  for (const TopicSpec& topic : Topics()) topics.emplace_back("help " + topic.name, topic.summary);
  out += "\nMore:\n" + TermList(topics);
  out +=
      "\nNames: MODEL is [NS/]NAME[@VERSION], VERSION a number, a tag, latest or b3:DIGEST.\n"
      "'tilekv COMMAND --help' tells more about a command.\n";
  return out;
}

std::string NounHelp(std::string_view noun) {
  std::string out = fmt::format("Usage: tilekv {} VERB [ARGUMENTS] [OPTIONS]\n\n", noun);
  out += CommandList(noun);
  return out + "\n" + GlobalFlagList();
}

std::string CommandHelp(const CommandSpec& command) {
  std::string out = WrapText("Usage: tilekv " + command.Usage(), 0, kHelpWidth);
  std::string summary = command.summary;
  summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
  out += "\n" + summary + ".\n";
  if (!command.help.empty()) out += "\n" + WrapText(command.help, 0, kHelpWidth);
  if (!command.arguments.empty()) {
    Terms terms;
    for (const ArgumentSpec& argument : command.arguments) {
      terms.emplace_back(argument.name + (argument.repeats ? "..." : ""), argument.help);
    }
    out += "\nArguments:\n" + TermList(terms);
  }
  if (!command.flags.empty()) {
    Terms terms;
    for (const FlagSpec& flag : command.flags) terms.emplace_back(FlagTerm(flag), flag.help);
    out += "\nOptions:\n" + TermList(terms);
  }
  out += "\n" + GlobalFlagList();
  if (!command.examples.empty()) {
    Terms terms;
    for (const ExampleSpec& example : command.examples) {
      terms.emplace_back(example.command, example.text);
    }
    out += "\nExamples:\n" + TermList(terms);
  }
  return out;
}

}  // namespace tilekv
