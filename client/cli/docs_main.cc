// tilekv-docs: prints the pages of docs/ that come from the program's tables.
//
//   tilekv-docs cli > docs/cli.md
//   tilekv-docs errors > docs/errors.md
#include <cstdio>
#include <string_view>

#include "client/cli/doc_pages.h"
#include "fmt/format.h"

int main(int argc, char** argv) {
  std::string_view page = argc == 2 ? argv[1] : "";
  if (page == "cli") {
    fmt::print("{}", tilekv::CliPage());
  } else if (page == "errors") {
    fmt::print("{}", tilekv::ErrorsPage());
  } else {
    fmt::print(stderr, "usage: tilekv-docs cli|errors\n");
    return 2;
  }
  return 0;
}
