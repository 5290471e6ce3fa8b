// Standard output: tables for people, JSON for programs.
//
// Not thread-safe: one command writes at a time.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/parse.h"
#include "client/cli/terminal.h"
#include "kvstore/base/stream.h"
#include "nlohmann/json.hpp"

namespace tilekv {

using Json = nlohmann::ordered_json;

class Output {
 public:
  Output(std::FILE* file, OutputFormat format, const Terminal& terminal)
      : file_(file), format_(format), terminal_(terminal) {}

  OutputFormat format() const { return format_; }
  bool is_json() const {
    return format_ == OutputFormat::kJson || format_ == OutputFormat::kJsonLines;
  }
  bool wide() const { return format_ == OutputFormat::kWide; }
  const Terminal& terminal() const { return terminal_; }
  Style style() const { return Style(terminal_.colour); }

  // CANCELLED where the reader went away (broken() is true then), STORE_FULL where the disk is
  // full.
  absl::Status Write(std::string_view text);
  absl::Status Line(std::string_view text) { return Write(std::string(text) + "\n"); }
  absl::Status Flush();
  // A document of its own: indented for json, one line for jsonl.
  absl::Status Document(const Json& json);
  bool broken() const { return broken_; }

 private:
  absl::Status Failed();

  std::FILE* file_;
  OutputFormat format_;
  Terminal terminal_;
  bool broken_ = false;
};

// Raw bytes to standard output.
class OutputSink : public ByteSink {
 public:
  explicit OutputSink(Output& output) : output_(output) {}
  absl::Status Append(Bytes piece) override { return output_.Write(AsText(piece)); }

 private:
  Output& output_;
};

struct Column {
  std::string title;
  bool right = false;      // aligned, for numbers
  bool wide_only = false;  // shown with -o wide
};
struct Row {
  std::vector<std::string> cells;
  Json json;
};

// A list, printed while it grows: as a table whose widths come from its first kRowsHeld rows (on a
// terminal that is too narrow the widest text is cut in its middle), as a JSON array, or as JSON
// lines. Memory is bounded whatever the list's length.
class ListPrinter {
 public:
  static constexpr size_t kRowsHeld = 1'000;

  ListPrinter(Output& output, std::vector<Column> columns);
  absl::Status Add(Row row);
  // Must be called once, after the last row. `empty_text` stands for an empty table.
  absl::Status Finish(std::string_view empty_text = "");

 private:
  absl::Status PrintHeld();
  void ChooseWidths();
  std::string TableLine(const std::vector<std::string>& cells, bool title) const;

  Output& output_;
  std::vector<Column> columns_;
  std::vector<size_t> widths_;  // empty until the title is printed
  std::optional<size_t> cut_;   // the column whose texts are cut to its width
  std::vector<Row> held_;
  bool any_ = false;
};

// A node's text, as it is: names in it are escaped already. What is not text is escaped again.
std::string Shown(const std::string& text);

// Text for JSON, where only UTF-8 may stand: as it is, or escaped as people see it.
std::string JsonText(std::string_view bytes);
// "1 tensor", "1,024 tensors".
std::string Counted(uint64_t count, std::string_view thing);
// "2026-01-31 12:00:03Z"; "" for 0. JSON gets the same with a T.
std::string FormatTime(int64_t micros, bool json = false);

}  // namespace tilekv
