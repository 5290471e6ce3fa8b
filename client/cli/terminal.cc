#include "client/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "fmt/format.h"
#include "kvstore/base/utf8.h"

namespace tilekv {
namespace {

constexpr int kLeastWidth = 20;
constexpr int kGreatestWidth = 500;
constexpr int kDefaultWidth = 100;  // where nothing tells: a pipe, a file

std::string_view Text(const char* value) { return value == nullptr ? "" : value; }

bool LocaleIsUtf8(const std::function<const char*(const char*)>& env) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value(Text(env(name)));
    if (value.empty()) continue;
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

int Width(bool stdout_tty, std::string_view columns) {
  int width = 0;
  winsize size{};
  if (stdout_tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  if (width <= 0) std::from_chars(columns.data(), columns.data() + columns.size(), width);
  if (width <= 0) width = kDefaultWidth;
  return std::clamp(width, kLeastWidth, kGreatestWidth);
}

}  // namespace

Terminal Terminal::Detect(const std::function<const char*(const char*)>& env) {
  Terminal terminal;
  terminal.stdin_tty = isatty(STDIN_FILENO) == 1;
  terminal.stdout_tty = isatty(STDOUT_FILENO) == 1;
  terminal.stderr_tty = isatty(STDERR_FILENO) == 1;
  bool dumb = Text(env("TERM")) == "dumb";
  terminal.colour = terminal.stdout_tty && !dumb && Text(env("NO_COLOR")).empty();
  terminal.utf8 = !dumb && LocaleIsUtf8(env);
  terminal.width = Width(terminal.stdout_tty, Text(env("COLUMNS")));
  return terminal;
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  for (unsigned char c : text) width += (c & 0xC0) != 0x80;
  return width;
}

std::string Shorten(std::string_view text, size_t width, bool middle) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width <= 3) return std::string("...").substr(0, width);
  size_t keep = width - 3;
  size_t tail = middle ? keep / 2 : 0;
  size_t head = keep - tail;
  auto offset_of = [&](size_t characters) {
    size_t at = 0;
    for (; characters > 0 && at < text.size(); --characters) {
      at += std::max<size_t>(1, Utf8CharLength(text.substr(at)));
    }
    return at;
  };
  std::string out(text.substr(0, offset_of(head)));
  out += "...";
  out += text.substr(offset_of(DisplayWidth(text) - tail));
  return out;
}

std::string Style::Wrap(std::string_view code, std::string_view text) const {
  return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

}  // namespace tilekv
