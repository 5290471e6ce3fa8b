#include "client/cli/terminal.h"

#include <map>

#include "client/cli/progress.h"
#include "client/cli/prompt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;

// A file in memory: what is written to it is text().
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content = "") {
    std::fwrite(content.data(), 1, content.size(), file_);
    std::rewind(file_);
  }
  ~MemoryFile() { std::fclose(file_); }
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    std::rewind(file_);
    std::string out;
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_)) {
      out.push_back(static_cast<char>(c));
    }
    return out;
  }

 private:
  std::FILE* file_ = std::tmpfile();
};

Terminal Detect(std::map<std::string, const char*> env) {
  return Terminal::Detect([&](const char* name) -> const char* {
    auto found = env.find(name);
    return found == env.end() ? nullptr : found->second;
  });
}

TEST(Terminal, TakesUtf8FromTheLocale) {
  EXPECT_TRUE(Detect({{"LANG", "en_US.UTF-8"}}).utf8);
  EXPECT_TRUE(Detect({{"LC_ALL", ""}, {"LANG", "C.utf8"}}).utf8);
  EXPECT_FALSE(Detect({{"LC_ALL", "C"}, {"LANG", "en_US.UTF-8"}}).utf8);
  EXPECT_FALSE(Detect({{"TERM", "dumb"}, {"LANG", "en_US.UTF-8"}}).utf8);
  EXPECT_FALSE(Detect({}).utf8);
}

TEST(Shorten, CutsAtCharactersNotBytes) {
  EXPECT_EQ(Shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(Shorten("abcdefg", 6), "abc...");
  EXPECT_EQ(Shorten("ääääääää", 6), "äää...");
  EXPECT_EQ(Shorten("abcdefghij", 7, true), "ab...ij");
  EXPECT_EQ(DisplayWidth("ä█x"), 3u);
}

TEST(Progress, SaysRateAndTimeLeft) {
  EXPECT_EQ(
      FormatProgress("import", 512 * kMiB, 1024 * kMiB, 4, 100, false),
      "import  [###############---------------]   50%  512.0 MiB of 1.0 GiB  128.0 MiB/s  4 s "
      "left");
  EXPECT_EQ(FormatProgress("put", 3 * kMiB, 0, 1, 100, false), "put  3.0 MiB  3.0 MiB/s");
}

TEST(Progress, FitsIntoANarrowTerminal) {
  for (int width : {20, 30, 50, 80, 200}) {
    std::string line = FormatProgress("import", 5 * kGiB, 7 * kGiB, 1000, width, true);
    EXPECT_LE(DisplayWidth(line), static_cast<size_t>(width));
  }
}

TEST(Progress, ReachesTheEndAndNotBeyond) {
  std::string line = FormatProgress("x", 20, 10, 1, 100, false);
  EXPECT_THAT(line, HasSubstr("100%"));
  EXPECT_THAT(line, HasSubstr("[##############################]"));
}

TEST(Progress, IsSilentWhereItIsNotEnabled) {
  MemoryFile err;
  ManualClock clock;
  Progress progress("x", false, {}, err.file(), &clock);
  clock.Advance(1'000'000);
  progress.Update(1, 2);
  progress.Finish();
  EXPECT_EQ(err.text(), "");
}

TEST(Progress, IsRedrawnTenTimesASecondAndRemovedAtTheEnd) {
  MemoryFile err;
  ManualClock clock;
  {
    Progress progress("x", true, {}, err.file(), &clock);
    for (int i = 0; i < 1000; ++i) {
      clock.Advance(1'000);  // a second in all
      progress.Update(static_cast<uint64_t>(i), 1000);
    }
  }
  std::string text = err.text();
  size_t draws = 0;
  for (size_t at = text.find("x  "); at != std::string::npos; at = text.find("x  ", at + 1))
    ++draws;
  EXPECT_EQ(draws, 10u);
  EXPECT_EQ(text.substr(text.size() - 4), "\r\x1b[K");
}

TEST(Duration, IsShort) {
  EXPECT_EQ(FormatDuration(0.2), "0 s");
  EXPECT_EQ(FormatDuration(59.4), "59 s");
  EXPECT_EQ(FormatDuration(125), "2 min 05 s");
  EXPECT_EQ(FormatDuration(3720), "1 h 02 min");
}

absl::Status Ask(const PromptOptions& options, const std::string& answer, std::string* shown) {
  MemoryFile in(answer);
  MemoryFile err;
  absl::Status status = AskToProceed("This removes x.", options, in.file(), err.file());
  *shown = err.text();
  return status;
}

TEST(Prompt, GoesOnOnlyWithYes) {
  std::string shown;
  EXPECT_TRUE(Ask({.interactive = true}, "y\n", &shown).ok());
  EXPECT_THAT(shown, HasSubstr("This removes x.\nGo on? [y/N] "));
  EXPECT_TRUE(Ask({.interactive = true}, "yes\n", &shown).ok());
  for (const char* answer : {"n\n", "\n", "", "yesterday\n"}) {
    EXPECT_EQ(GetReason(Ask({.interactive = true}, answer, &shown)), Reason::kCancelled) << answer;
  }
}

TEST(Prompt, DoesNotAskWithYesGiven) {
  std::string shown;
  EXPECT_TRUE(Ask({.yes = true}, "", &shown).ok());
  EXPECT_EQ(shown, "");
}

TEST(Prompt, RefusesWhereNobodyCanBeAsked) {
  std::string shown;
  absl::Status status = Ask({}, "y\n", &shown);
  EXPECT_EQ(GetReason(status), Reason::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("This removes x."));
  EXPECT_THAT(std::string(status.message()), HasSubstr("pass -y"));
}

}  // namespace
}  // namespace tilekv
