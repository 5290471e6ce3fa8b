// docs/cli.md says what the table of commands and the exit codes say.
#include <fstream>
#include <sstream>

#include "client/cli/command_table.h"
#include "client/cli/exit_code.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

bool Has(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

std::string Document() {
  std::ifstream in(TILEKV_SOURCE_DIR "/docs/cli.md");
  EXPECT_TRUE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string FlagLine(const FlagSpec& flag) {
  return fmt::format("- `{}{}{}{}`: {}\n", flag.short_name.empty() ? "" : flag.short_name + ", ",
                     flag.name, flag.value.empty() ? "" : " " + flag.value,
                     flag.repeats ? " ..." : "", flag.help);
}

// A command's section of the page, as it must stand there.
std::string Section(const CommandSpec& command) {
  std::string out = fmt::format("### tilekv {}\n\n", command.path());
  std::string summary = command.summary;
  summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
  out += fmt::format("    tilekv {}\n\n{}.", command.Usage(), summary);
  if (!command.help.empty()) out += " " + command.help;
  out += "\n";
  if (!command.arguments.empty() || !command.flags.empty()) out += "\n";
  for (const ArgumentSpec& argument : command.arguments) {
    out += fmt::format("- `{}`: {}\n", argument.name, argument.help);
  }
  for (const FlagSpec& flag : command.flags) out += FlagLine(flag);
  return out;
}

TEST(Docs, DescribeEveryCommandAsTheTableDoes) {
  std::string page = Document();
  for (const CommandSpec& command : Commands()) {
    EXPECT_TRUE(Has(page, Section(command))) << "docs/cli.md needs:\n" << Section(command);
  }
  size_t sections = 0;
  for (size_t at = page.find("\n### tilekv "); at != std::string::npos;
       at = page.find("\n### tilekv ", at + 1)) {
    ++sections;
  }
  EXPECT_EQ(sections, Commands().size());
}

TEST(Docs, DescribeTheOptionsOfEveryCommand) {
  std::string page = Document();
  for (const FlagSpec& flag : GlobalFlags())
    EXPECT_TRUE(Has(page, FlagLine(flag))) << "docs/cli.md needs: " << FlagLine(flag);
}

TEST(Docs, GiveEveryReasonItsExitCode) {
  std::string page = Document();
  for (int i = 1; i <= static_cast<int>(Reason::kInternal); ++i) {
    auto reason = static_cast<Reason>(i);
    EXPECT_TRUE(Has(page, fmt::format("| {} | {} |", ReasonName(reason),
                                      static_cast<int>(ExitCodeOf(MakeError(reason, ""))))));
  }
}

TEST(Docs, KnowTheLimits) {
  std::string page = Document();
  EXPECT_TRUE(Has(page, fmt::format("NS and NAME: 1 to {} of", kMaxNameBytes)));
  EXPECT_TRUE(Has(page, fmt::format("1 to {} bytes", FormatCount(kMaxKeyBytes))));
  EXPECT_TRUE(Has(page, fmt::format("HOST[:{}]", kDefaultPort)));
  EXPECT_TRUE(Has(page, fmt::format("up to {} bytes ({})", FormatCount(kDefaultMaxObjectBytes),
                                    FormatSizeShort(kDefaultMaxObjectBytes))));
}

}  // namespace
}  // namespace tilekv
