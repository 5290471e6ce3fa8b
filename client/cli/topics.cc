#include "client/cli/topics.h"

#include "client/cli/exit_code.h"
#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"

namespace tilekv {
namespace {

std::string NamesText() {
  return fmt::format(
             R"(    MODEL   = [NS/]NAME[@VERSION]
              NS and NAME: 1 to {} of A-Z a-z 0-9 . _ -, without `--` and `..`
              NS is `default` where none is given
    VERSION = number | tag (begins with a letter) | latest (the default)
              | b3: and 8 or more digits of the digest
    STORE   = tilekv://HOST[:{}][,HOST...] | file:DIR | DIR
    both    = tilekv://HOST:{}/NS/NAME@VERSION | tilekv:///NS/NAME | DIR#NS/NAME
              tilekv:/// is the store of TILEKV_STORE
)",
             kMaxNameBytes, kDefaultPort, kDefaultPort) +
         fmt::format(R"(
A key of a plain value is 1 to {} bytes, any but NUL. A version's number is never used twice. A
tag is moved by tagging again. Without --store the store is that of TILEKV_STORE.
)",
                     FormatCount(kMaxKeyBytes));
}

std::string SizesText() {
  return fmt::format(R"(`4096`, `64MiB`, `5GB`, `1.5GiB`: GiB is 2^30, GB is 10^9.

Ranges of bytes (`--range`) and slices (`--slice`) count from the end where they are negative:
`--range -64KiB:` is the last 64 KiB, `--slice -3:` the last three rows.

A value above the store's object limit is refused, and the error says what to do instead. A store
takes objects up to {} bytes ({}) unless it was made with another limit.
)",
                     FormatCount(kDefaultMaxObjectBytes), FormatSizeShort(kDefaultMaxObjectBytes));
}

std::string OutputText() {
  return R"(Results go to standard output, all else to standard error. `-o table` is for people and `-o wide`
shows more columns; `-o json` prints one document (a list is an array), `-o jsonl` one line for each
element of a list. Sizes in JSON are bytes, times are UTC. Bytes that are not UTF-8 are escaped in
names, and a key has its bytes in `key_hex` then. With `-o json` or `jsonl` an error is one line of
JSON on standard error: `{"error": REASON, "message": TEXT}`.

Long work shows a bar with rate and time left when standard error is a terminal; `-q` silences it,
and remarks. Colours are used on a terminal only and never when `NO_COLOR` is set. Pictures use
box-drawing characters where the locale is UTF-8, ASCII elsewhere.

Commands that destroy something show what they are about to do and ask. `-y` does not ask; where
nobody can be asked and `-y` is not given they refuse. Existing files are overwritten with `-y`
only; a new file appears whole or not at all.

Ctrl-C stops the work, leaves nothing half-visible, and exits with 130. A second one ends the
program at once.
)";
}

std::string ExitCodesText() {
  std::string text = "| code | meaning |\n| --- | --- |\n";
  for (const ExitCodeInfo& info : ExitCodes()) {
    text += fmt::format("| {} | {} |\n", static_cast<int>(info.code), info.meaning);
  }
  return text +
         "\nAn error reads `REASON: text`. Reasons are stable; docs/errors.md tells what each "
         "means, its code,\nand what to do.\n";
}

}  // namespace

const std::vector<TopicSpec>& Topics() {
  static const std::vector<TopicSpec> topics = {
      {"names", "Names", "models, versions, stores, keys", NamesText()},
      {"sizes", "Sizes", "how sizes, ranges and slices are written", SizesText()},
      {"output", "Output", "tables and JSON, questions, Ctrl-C", OutputText()},
      {"exit-codes", "Exit codes", "what the program tells its caller", ExitCodesText()},
  };
  return topics;
}

const TopicSpec* FindTopic(std::string_view name) {
  for (const TopicSpec& topic : Topics()) {
    if (topic.name == name) return &topic;
  }
  return nullptr;
}

}  // namespace tilekv
