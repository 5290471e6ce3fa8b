// What `tilekv help TOPIC` tells beside the commands: names, sizes, output, exit codes. docs/cli.md
// has the same. Immutable, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilekv {

struct TopicSpec {
  std::string name;     // "names", as it is asked for
  std::string title;    // "Names"
  std::string summary;  // one line, no full stop
  // Paragraphs in Markdown that is also readable as it is; lines up to 100 columns.
  std::string text;
};

const std::vector<TopicSpec>& Topics();
// Null when there is none.
const TopicSpec* FindTopic(std::string_view name);

}  // namespace tilekv
