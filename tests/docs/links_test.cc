// Links between the pages of the documentation lead somewhere.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tilekv {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> Pages() {
  const fs::path root = TILEKV_SOURCE_DIR;
  std::vector<fs::path> pages;
  for (const fs::path& folder : {root, root / "docs", root / "tests"}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".md") pages.push_back(entry.path());
    }
  }
  return pages;
}

TEST(Docs, EveryRelativeLinkNamesAFileThatExists) {
  static const std::regex kLink(R"(\]\(([^)#\s]+)[^)]*\))");
  int links = 0;
  for (const fs::path& page : Pages()) {
    std::ifstream file(page);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    for (std::sregex_iterator it(text.begin(), text.end(), kLink), end; it != end; ++it) {
      const std::string target = (*it)[1];
      if (target.find("://") != std::string::npos) continue;
      ++links;
      EXPECT_TRUE(fs::exists(page.parent_path() / target))
          << page.filename() << " links to " << target;
    }
  }
  EXPECT_GT(links, 0);
}

}  // namespace
}  // namespace tilekv
