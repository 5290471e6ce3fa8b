// docs/cli.md and docs/errors.md are what the program's tables make of them.
#include <fstream>
#include <iterator>
#include <string>

#include "client/cli/command_table.h"
#include "client/cli/doc_pages.h"
#include "client/cli/exit_code.h"
#include "client/cli/topics.h"
#include "gtest/gtest.h"
#include "kvstore/base/reasons.h"

namespace tilekv {
namespace {

std::string ReadPage(const std::string& name) {
  std::ifstream file(std::string(TILEKV_SOURCE_DIR "/docs/") + name);
  EXPECT_TRUE(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The first line in which they differ.
std::string Difference(const std::string& a, const std::string& b) {
  size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  size_t begin = at == 0 ? 0 : a.rfind('\n', at - 1) + 1;
  auto line = [&](const std::string& text) {
    return text.substr(std::min(begin, text.size()), text.find('\n', at) - begin);
  };
  return "the page has:   " + line(a) + "\nthe program has: " + line(b);
}

void ExpectPage(const std::string& name, const std::string& made) {
  const std::string page = ReadPage(name + ".md");
  EXPECT_TRUE(page == made) << "docs/" << name << ".md is not what the program says. "
                            << Difference(page, made) << "\nBring it up to date: build tilekv-docs,"
                            << " then BUILD/bin/tilekv-docs " << name << " > docs/" << name
                            << ".md";
}

TEST(Docs, ThePageOfTheCommandLineIsWhatTheTablesSay) { ExpectPage("cli", CliPage()); }

TEST(Docs, ThePageOfErrorsIsWhatTheReasonsSay) { ExpectPage("errors", ErrorsPage()); }

TEST(Docs, EveryCommandAndFlagIsDescribed) {
  const std::string page = CliPage();
  for (const CommandSpec& command : Commands()) {
    EXPECT_NE(page.find("### tilekv " + command.path() + "\n"), std::string::npos);
    EXPECT_FALSE(command.summary.empty() || command.summary.back() == '.') << command.path();
    for (const FlagSpec& flag : command.flags) EXPECT_FALSE(flag.help.empty()) << flag.name;
    for (const ArgumentSpec& argument : command.arguments) EXPECT_FALSE(argument.help.empty());
  }
}

TEST(Docs, EveryReasonIsExplainedAndItsExitCodeToo) {
  for (const ReasonInfo& info : AllReasons()) {
    EXPECT_FALSE(info.meaning.empty() || info.retry.empty() || info.remedy.empty()) << info.name;
    bool known = false;
    for (const ExitCodeInfo& code : ExitCodes()) known = known || code.code == info.exit_code;
    EXPECT_TRUE(known) << info.name << " ends programs with " << info.exit_code;
  }
}

TEST(Docs, TopicsAreNotCalledLikeCommands) {
  for (const TopicSpec& topic : Topics()) {
    EXPECT_FALSE(IsNoun(topic.name)) << topic.name;
    EXPECT_EQ(FindCommand("", topic.name), nullptr) << topic.name;
  }
}

}  // namespace
}  // namespace tilekv
