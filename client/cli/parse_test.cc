#include "client/cli/parse.h"

#include "client/cli/help.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/machine_memory.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CommandLine Parse(const std::vector<std::string>& words) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(words, "file:/default");
  EXPECT_TRUE(line.ok()) << line.status().message();
  return line.ok() ? *line : CommandLine();
}
std::string Error(const std::vector<std::string>& words) {
  absl::StatusOr<CommandLine> line = ParseCommandLine(words, "");
  EXPECT_FALSE(line.ok());
  EXPECT_EQ(GetReason(line.status()), Reason::kInvalidArgument);
  return line.ok() ? "" : std::string(line.status().message());
}

TEST(Parse, FindsNounVerbAndArguments) {
  CommandLine line = Parse({"kv", "get", "key", "file"});
  EXPECT_EQ(line.spec->path(), "kv get");
  EXPECT_EQ(line.arguments.Word(0), "key");
  EXPECT_EQ(line.arguments.Word(1), "file");
  EXPECT_EQ(line.options.store, "file:/default");
  EXPECT_EQ(line.options.memory_bytes, DefaultClientMemoryBytes());
}

TEST(Parse, TakesGlobalOptionsAnywhere) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--store", "x", "-o", "json", "--memory=64MiB", "-q", "-y", "kv", "stat", "k"},
           {"kv", "--store", "x", "-o", "json", "stat", "--memory", "64MiB", "-q", "k", "-y"},
           {"kv", "stat", "k", "--store=x", "-ojson", "--memory", "64MiB", "-qy"}}) {
    CommandLine line = Parse(words);
    ASSERT_NE(line.spec, nullptr);
    EXPECT_EQ(line.spec->path(), "kv stat");
    EXPECT_EQ(line.arguments.Word(0), "k");
    EXPECT_EQ(line.options.store, "x");
    EXPECT_EQ(line.options.format, OutputFormat::kJson);
    EXPECT_EQ(line.options.memory_bytes, 64 * kMiB);
    EXPECT_TRUE(line.options.quiet);
    EXPECT_TRUE(line.options.yes);
  }
}

TEST(Parse, TakesValuesThatBeginWithAMinus) {
  EXPECT_EQ(Parse({"kv", "get", "k", "--range", "-64KiB:"}).arguments.Value("--range"), "-64KiB:");
  EXPECT_EQ(Parse({"kv", "get", "--range", "-5:-1", "k"}).arguments.Value("--range"), "-5:-1");
  EXPECT_EQ(Parse({"kv", "get", "--range=-5:", "k"}).arguments.Value("--range"), "-5:");
  CommandLine line = Parse({"tensor", "get", "m", "t", "x.npy", "--slice", "-3:"});
  EXPECT_EQ(line.arguments.Value("--slice"), "-3:");
  EXPECT_EQ(line.arguments.Word(2), "x.npy");
  line = Parse({"tensor", "get", "--slice", "-1,::2", "m", "t", "-", "-y"});
  EXPECT_EQ(line.arguments.Value("--slice"), "-1,::2");
  EXPECT_EQ(line.arguments.Word(2), "-");
}

TEST(Parse, TakesSeveralValuesOfAnOptionThatRepeats) {
  CommandLine line = Parse({"model", "import", "--tag", "a", "m", "--tag", "b", "src"});
  EXPECT_THAT(line.arguments.Values("--tag"), ElementsAre("a", "b"));
  EXPECT_EQ(line.arguments.Word(1), "src");
}

TEST(Parse, TakesSeveralArgumentsWhereTheLastRepeats) {
  EXPECT_THAT(Parse({"model", "rm", "a@1", "--now", "b@2", "c@3"}).arguments.WordsFrom(0),
              ElementsAre("a@1", "b@2", "c@3"));
}

TEST(Parse, TakesAMinusAsAnArgument) {
  CommandLine line = Parse({"kv", "put", "key", "-", "--chunked"});
  EXPECT_EQ(line.arguments.Word(1), "-");
  EXPECT_TRUE(line.arguments.Has("--chunked"));
}

TEST(Parse, ArgumentsCalledLikeCommandsStayArguments) {
  CommandLine line = Parse({"kv", "get", "kv", "ls"});
  EXPECT_EQ(line.spec->path(), "kv get");
  EXPECT_EQ(line.arguments.Word(0), "kv");
  EXPECT_EQ(line.arguments.Word(1), "ls");
}

TEST(Parse, ArgumentsInBracketsStayWhole) {
  EXPECT_EQ(Parse({"kv", "get", "[a,b]"}).arguments.Word(0), "[a,b]");
  EXPECT_EQ(Parse({"kv", "get", "k", "--range", "[a,b]"}).arguments.Value("--range"), "[a,b]");
}

TEST(Parse, TakesWhatFollowsTwoDashesAsArguments) {
  EXPECT_EQ(Parse({"kv", "get", "--", "--key"}).arguments.Word(0), "--key");
}

TEST(Parse, TakesAnEmptyValue) {
  CommandLine line = Parse({"kv", "ls", "--after=", "pre"});
  EXPECT_EQ(line.arguments.Value("--after"), "");
  EXPECT_EQ(line.arguments.Word(0), "pre");
}

TEST(Parse, UnknownCommandsNameTheNearest) {
  EXPECT_THAT(Error({"storr", "info"}), HasSubstr("did you mean 'store'?"));
  EXPECT_THAT(Error({"kv", "gte", "k"}), HasSubstr("did you mean 'get'?"));
  EXPECT_THAT(Error({"kv", "xyzzy"}), HasSubstr("get, put, stat, ls, rm"));
  EXPECT_THAT(Error({"kv"}), HasSubstr("needs a verb: get, put, stat, ls, rm"));
}

TEST(Parse, WrongOptionsSayWhatToType) {
  EXPECT_THAT(Error({"kv", "put", "k", "f", "--chunkd"}), HasSubstr("did you mean '--chunked'?"));
  EXPECT_THAT(Error({"kv", "get", "k", "--range"}), HasSubstr("--range"));
  EXPECT_THAT(Error({"kv", "ls", "--after", "--limit", "3"}), HasSubstr("--after needs a value"));
  EXPECT_THAT(Error({"kv", "get", "k", "--range", "1:", "--range", "2:"}),
              HasSubstr("--range is given 2 times"));
  EXPECT_THAT(Error({"kv", "get"}), HasSubstr("KEY is missing; usage: tilekv kv get KEY [DST]"));
  EXPECT_THAT(Error({"kv", "stat", "a", "b"}), HasSubstr("'b' is one argument too many"));
  EXPECT_THAT(Error({"kv", "ls", "-o", "xml"}), HasSubstr("table, wide, json or jsonl"));
  EXPECT_THAT(Error({"kv", "ls", "--memory", "1MiB"}), HasSubstr("the least is 64 MiB"));
  EXPECT_THAT(Error({"kv", "ls", "--memory", "many"}), HasSubstr("--memory: 'many' is not a size"));
  EXPECT_THAT(Error({"--chunked", "kv"}), HasSubstr("stands before the command"));
}

TEST(Parse, HelpIsFoundEverywhere) {
  EXPECT_TRUE(Parse({}).help);
  EXPECT_TRUE(Parse({"--help"}).help);
  EXPECT_EQ(Parse({"kv", "--help"}).help_noun, "kv");
  EXPECT_EQ(Parse({"help", "kv", "get"}).spec->path(), "kv get");
  CommandLine line = Parse({"kv", "get", "-h"});
  EXPECT_TRUE(line.help);
  EXPECT_EQ(line.spec->path(), "kv get");
}

TEST(Parse, ErrorsKnowTheFormatThatWasAskedFor) {
  EXPECT_EQ(GuessFormat({"kv", "nonsense", "-o", "json"}), OutputFormat::kJson);
  EXPECT_EQ(GuessFormat({"--output=jsonl"}), OutputFormat::kJsonLines);
  EXPECT_EQ(GuessFormat({"kv"}), OutputFormat::kTable);
}

TEST(Range, CountsFromTheStartAndFromTheEnd) {
  auto resolve = [](const char* text, uint64_t length) {
    absl::StatusOr<RangeText> range = ParseRange(text);
    EXPECT_TRUE(range.ok()) << text;
    ByteRange bytes = range->Resolve(length);
    return std::pair<uint64_t, uint64_t>(bytes.offset, *bytes.length);
  };
  using Pair = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(resolve("2:5", 10), Pair(2, 3));
  EXPECT_EQ(resolve(":", 10), Pair(0, 10));
  EXPECT_EQ(resolve("4:", 10), Pair(4, 6));
  EXPECT_EQ(resolve(":4", 10), Pair(0, 4));
  EXPECT_EQ(resolve("-3:", 10), Pair(7, 3));
  EXPECT_EQ(resolve(":-3", 10), Pair(0, 7));
  EXPECT_EQ(resolve("-30:-5", 10), Pair(0, 5));
  EXPECT_EQ(resolve("5:2", 10), Pair(5, 0));
  EXPECT_EQ(resolve("20:30", 10), Pair(10, 0));
  EXPECT_EQ(resolve("1KiB:2KiB", 4096), Pair(1024, 1024));
}

TEST(Range, RefusesWhatIsNone) {
  for (const char* text : {"", "5", "a:b", "1:2:3", "--1:", "1:-", "99999999999999999999:"}) {
    EXPECT_FALSE(ParseRange(text).ok()) << text;
  }
}

TEST(Table, EveryCommandHasSummaryHandlerAndUniquePath) {
  std::vector<std::string> paths;
  for (const CommandSpec& command : Commands()) {
    EXPECT_FALSE(command.summary.empty()) << command.path();
    EXPECT_NE(command.summary.back(), '.') << command.path();
    EXPECT_NE(command.handler, nullptr) << command.path();
    EXPECT_TRUE(command.noun.empty() || IsNoun(command.noun)) << command.path();
    EXPECT_EQ(FindCommand(command.noun, command.verb), &command) << "twice: " << command.path();
    bool optional_seen = false;
    for (const ArgumentSpec& argument : command.arguments) {
      EXPECT_FALSE(argument.required && optional_seen) << command.path();
      optional_seen = optional_seen || !argument.required;
      EXPECT_FALSE(argument.help.empty()) << command.path() << " " << argument.name;
    }
  }
}

TEST(Table, ExamplesParse) {
  for (const CommandSpec& command : Commands()) {
    for (const ExampleSpec& example : command.examples) {
      std::string text = example.command.substr(example.command.find("tilekv ") + 7);
      std::vector<std::string> words;
      std::istringstream in(text);
      for (std::string word; in >> word;) words.push_back(word);
      absl::StatusOr<CommandLine> line = ParseCommandLine(words, "");
      ASSERT_TRUE(line.ok()) << example.command << ": " << line.status().message();
      EXPECT_EQ(line->spec, &command) << example.command;
    }
  }
}

TEST(Help, NamesEveryCommandFlagAndArgument) {
  std::string program = ProgramHelp();
  for (const CommandSpec& command : Commands()) {
    EXPECT_THAT(program, HasSubstr("  " + command.path() + " "));
    std::string help = CommandHelp(command);
    for (const FlagSpec& flag : command.flags) EXPECT_THAT(help, HasSubstr(flag.name));
    for (const ArgumentSpec& argument : command.arguments) {
      EXPECT_THAT(help, HasSubstr(argument.help.substr(0, 20)));
    }
  }
}

TEST(Help, FitsIntoAHundredColumns) {
  for (const CommandSpec& command : Commands()) {
    std::istringstream lines(CommandHelp(command));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  }
}

TEST(WrapText, BreaksAtSpacesAndKeepsLineBreaks) {
  EXPECT_EQ(WrapText("one two three\nfour", 2, 10), "  one two\n  three\n  four\n");
  EXPECT_EQ(WrapText("averylongword", 0, 4), "averylongword\n");
}

}  // namespace
}  // namespace tilekv
