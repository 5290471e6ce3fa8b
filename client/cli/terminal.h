// What the program writes to: a terminal or not, how wide, which characters and colours it takes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tilekv {

struct Terminal {
  bool stdin_tty = false;
  bool stdout_tty = false;
  bool stderr_tty = false;
  bool colour = false;  // of standard output: a terminal, not dumb, and NO_COLOR is not set
  bool utf8 = false;    // by the locale's variables
  int width = 80;       // columns

  // Of this process. `env` gives a variable's value or null.
  static Terminal Detect(const std::function<const char*(const char*)>& env);
};

// Columns that a text takes: characters, not bytes; those of double width count once.
size_t DisplayWidth(std::string_view text);
// Cut to `width` columns with "..." at the end (in the middle where `middle`).
std::string Shorten(std::string_view text, size_t width, bool middle = false);

// Escape sequences, or nothing where colour is off.
class Style {
 public:
  explicit Style(bool colour) : colour_(colour) {}
  std::string Bold(std::string_view text) const { return Wrap("1", text); }
  std::string Dim(std::string_view text) const { return Wrap("2", text); }
  std::string Red(std::string_view text) const { return Wrap("31", text); }
  std::string Green(std::string_view text) const { return Wrap("32", text); }
  std::string Yellow(std::string_view text) const { return Wrap("33", text); }
  std::string Cyan(std::string_view text) const { return Wrap("36", text); }
  std::string Wrap(std::string_view code, std::string_view text) const;

 private:
  bool colour_;
};

}  // namespace tilekv
