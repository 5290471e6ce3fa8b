#include "client/cli/output.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"

namespace tilekv {
namespace {

constexpr size_t kLeastCutWidth = 16;  // of a column that makes room for the others

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

absl::Status Output::Failed() {
  int error = errno;
  if (error == EPIPE) {
    broken_ = true;
    return MakeError(Reason::kCancelled, "standard output was closed");
  }
  if (error == ENOSPC) {
    return MakeError(Reason::kStoreFull,
                     "writing to standard output: what it goes to is full, not the store");
  }
  return MakeError(Reason::kInternal, fmt::format("writing to standard output: {}",
                                                  std::generic_category().message(error)));
}

absl::Status Output::Write(std::string_view text) {
  if (text.empty() || std::fwrite(text.data(), 1, text.size(), file_) == text.size()) {
    return absl::OkStatus();
  }
  return Failed();
}

absl::Status Output::Flush() { return std::fflush(file_) == 0 ? absl::OkStatus() : Failed(); }

absl::Status Output::Document(const Json& json) {
  return Line(Dump(json, format_ == OutputFormat::kJson ? 2 : -1));
}

ListPrinter::ListPrinter(Output& output, std::vector<Column> columns)
    : output_(output), columns_(std::move(columns)) {}

absl::Status ListPrinter::Add(Row row) {
  if (output_.format() == OutputFormat::kJsonLines) return output_.Line(Dump(row.json, -1));
  if (output_.format() == OutputFormat::kJson) {
    std::string text = any_ ? ",\n  " : "[\n  ";
    any_ = true;
    return output_.Write(text + Dump(row.json, -1));
  }
  row.json = nullptr;
  held_.push_back(std::move(row));
  any_ = true;
  return held_.size() < kRowsHeld ? absl::OkStatus() : PrintHeld();
}

absl::Status ListPrinter::Finish(std::string_view empty_text) {
  switch (output_.format()) {
    case OutputFormat::kJsonLines:
      return absl::OkStatus();
    case OutputFormat::kJson:
      return output_.Line(any_ ? "\n]" : "[]");
    case OutputFormat::kTable:
    case OutputFormat::kWide:
      break;
  }
  if (!any_) return empty_text.empty() ? absl::OkStatus() : output_.Line(empty_text);
  return PrintHeld();
}

void ListPrinter::ChooseWidths() {
  size_t total = 0;
  size_t widest = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = DisplayWidth(columns_[i].title);
    for (const Row& row : held_) width = std::max(width, DisplayWidth(row.cells[i]));
    widths_.push_back(width);
    if (columns_[i].wide_only && !output_.wide()) continue;
    total += width + 2;
    if (width > widths_[widest] && !columns_[i].right) widest = i;
  }
  const Terminal& terminal = output_.terminal();
  auto room = static_cast<size_t>(terminal.width) + 2;
  if (!terminal.stdout_tty || output_.wide() || total <= room) return;
  cut_ = widest;
  size_t excess = total - room;
  widths_[widest] = std::max(kLeastCutWidth, widths_[widest] - std::min(widths_[widest], excess));
}

absl::Status ListPrinter::PrintHeld() {
  if (widths_.empty()) {
    ChooseWidths();
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(column.title);
    TILEKV_RETURN_IF_ERROR(output_.Line(TableLine(titles, true)));
  }
  for (const Row& row : held_) TILEKV_RETURN_IF_ERROR(output_.Line(TableLine(row.cells, false)));
  held_.clear();
  return absl::OkStatus();
}

std::string ListPrinter::TableLine(const std::vector<std::string>& cells, bool title) const {
  std::string line;
  bool first = true;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].wide_only && !output_.wide()) continue;
    if (!first) line += "  ";
    first = false;
    std::string cell = cut_ == i ? Shorten(cells[i], widths_[i], true) : cells[i];
    size_t width = DisplayWidth(cell);
    std::string padding(widths_[i] > width ? widths_[i] - width : 0, ' ');
    line += columns_[i].right ? padding + cell : cell + padding;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return title ? output_.style().Bold(line) : line;
}

std::string JsonText(std::string_view bytes) {
  return IsValidUtf8(bytes) ? std::string(bytes) : Printable(bytes);
}

std::string Shown(const std::string& text) {
  bool plain = IsValidUtf8(text) && std::none_of(text.begin(), text.end(), [](char c) {
                 return static_cast<unsigned char>(c) < ' ' || c == 0x7f;
               });
  return plain ? text : Printable(text);
}

std::string Counted(uint64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", FormatCount(count), thing, count == 1 ? "" : "s");
}

std::string FormatTime(int64_t micros, bool json) {
  if (micros == 0) return "";
  std::time_t seconds = static_cast<std::time_t>(micros / 1'000'000);
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "?";
  return fmt::format("{:04}-{:02}-{:02}{}{:02}:{:02}:{:02}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, json ? 'T' : ' ', parts.tm_hour, parts.tm_min,
                     parts.tm_sec);
}

}  // namespace tilekv
