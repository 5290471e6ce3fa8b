#include "client/cli/tile_map.h"

#include "client/cli/terminal.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tilekv {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<uint64_t> Edges(uint64_t size, uint64_t tile) {
  std::vector<uint64_t> edges;
  for (uint64_t at = 0; at < size; at += tile) edges.push_back(at);
  edges.push_back(size);
  return edges;
}

TileMap MapOf(uint64_t rows, uint64_t tile_rows, uint64_t columns, uint64_t tile_columns) {
  TileMap map{.row_edges = Edges(rows, tile_rows), .column_edges = Edges(columns, tile_columns)};
  map.states.assign((map.row_edges.size() - 1) * (map.column_edges.size() - 1), TileState::kUnique);
  return map;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(TileMap, DrawsABoxForEachTile) {
  TileMap map = MapOf(200, 100, 400, 200);
  map.states = {TileState::kShared, TileState::kUnique, TileState::kSuspect, TileState::kMissing};
  EXPECT_EQ(RenderTileMap(map, {.width = 40, .max_lines = 9, .utf8 = true}),
            "    0                200            400\n"
            "  0 ┌────────────────┬────────────────┐\n"
            "    │░░░░░░░░░░░░░░░░│▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓│\n"
            "    │░░░░░░ 0 ░░░░░░░│▓▓▓▓▓▓ 1 ▓▓▓▓▓▓▓│\n"
            "    │░░░░░░░░░░░░░░░░│▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓│\n"
            "100 ├────────────────┼────────────────┤\n"
            "    │????????????????│××××××××××××××××│\n"
            "    │?????? 2 ???????│×××××× 3 ×××××××│\n"
            "    │????????????????│××××××××××××××××│\n"
            "200 └────────────────┴────────────────┘\n"
            "\n"
            "    ░ 1 shared with other versions   ▓ 1 only in this version   ? 1 suspect   × 1 "
            "missing\n"
            "    one character: 11 columns x 22 rows\n");
}

TEST(TileMap, DrawsWithAsciiWhereThatIsAll) {
  std::string text =
      RenderTileMap(MapOf(200, 100, 400, 200), {.width = 30, .max_lines = 9, .utf8 = false});
  for (char c : text) EXPECT_GE(c, 0);
  EXPECT_THAT(text, HasSubstr("+"));
  EXPECT_THAT(text, HasSubstr("# 4 only in this version"));
}

TEST(TileMap, KeepsTheMatrixsProportions) {
  std::vector<std::string> lines =
      Lines(RenderTileMap(MapOf(9000, 1800, 9000, 1125), {.width = 100, .max_lines = 24}));
  // The axis, the picture, and an empty line, the legend and the caption.
  double height = static_cast<double>(lines.size()) - 4;
  double width = static_cast<double>(lines[1].size()) - 6;
  EXPECT_NEAR(width / height, 2, 0.4);
  EXPECT_THAT(lines.back(), Not(HasSubstr("proportions")));
}

TEST(TileMap, OwnsUpToProportionsThatAreNotKept) {
  std::string text = RenderTileMap(MapOf(30522, 5087, 384, 384), {.width = 80, .max_lines = 24});
  EXPECT_THAT(text, HasSubstr("proportions are not kept"));
  EXPECT_THAT(text, HasSubstr("30,522 +"));
}

TEST(TileMap, ShowsOneMissingTileAmongVeryMany) {
  TileMap map = MapOf(100'000, 100, 100'000, 100);
  map.states[777'777] = TileState::kMissing;
  std::string text = RenderTileMap(map, {.width = 80, .max_lines = 20});
  EXPECT_THAT(text, HasSubstr("X 1 missing"));
  EXPECT_THAT(text, HasSubstr("shows the worst of its tiles"));
  std::vector<std::string> lines = Lines(text);
  size_t marked = 0;
  for (size_t i = 1; i <= 20; ++i) marked += lines[i].find('X') != std::string::npos;
  EXPECT_EQ(marked, 1u);
}

TEST(TileMap, NeverGoesBeyondTheTerminal) {
  for (int width : {30, 41, 60, 83, 120}) {
    for (const TileMap& map :
         {MapOf(9000, 1800, 9000, 1125), MapOf(7, 2, 100'000, 9'999), MapOf(65'536, 64, 3, 3),
          MapOf(1, 1, 1'000'000, 1'000), MapOf(50, 7, 50, 11)}) {
      std::vector<std::string> lines = Lines(RenderTileMap(map, {.width = width, .max_lines = 24}));
      // Legend and caption are text, and may wrap.
      for (size_t i = 0; i + 2 < lines.size(); ++i) {
        EXPECT_LE(DisplayWidth(lines[i]), static_cast<size_t>(width)) << lines[i];
      }
      EXPECT_LE(lines.size(), 24u + 4u);
    }
  }
}

TEST(TileMap, MarksEveryTileOnce) {
  TileMap map = MapOf(50, 7, 50, 11);
  std::string text = RenderTileMap(map, {.width = 100, .max_lines = 30});
  size_t boxes = (map.row_edges.size() - 1) * (map.column_edges.size() - 1);
  EXPECT_EQ(boxes, 40u);
  EXPECT_THAT(text, HasSubstr("# 40 only in this version"));
}

TEST(TileMap, UsesTheLabelsOfFoldedDimensions) {
  TileMap map = MapOf(4, 2, 100, 100);
  map.row_labels = {"[0,0]", "[1,0]", ""};
  std::string text = RenderTileMap(map, {.width = 60});
  EXPECT_THAT(text, HasSubstr("[1,0] "));
}

TEST(TileMap, ColoursAreOfTheStatesAndEndWithTheLine) {
  TileMap map = MapOf(200, 100, 400, 200);
  map.states[0] = TileState::kMissing;
  std::string text =
      RenderTileMap(map, {.width = 40, .max_lines = 9, .utf8 = true, .colour = true});
  EXPECT_THAT(text, HasSubstr("\x1b[0;31m×"));
  for (const std::string& line : Lines(text)) {
    size_t last = line.rfind("\x1b[");
    if (last == std::string::npos) continue;
    EXPECT_EQ(line.substr(last + 2, 1), "0") << line;
  }
}

TEST(TileMap, OfNothingIsNothing) { EXPECT_EQ(RenderTileMap({}, {}), ""); }

}  // namespace
}  // namespace tilekv
