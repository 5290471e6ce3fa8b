#include "client/cli/tile_map.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "client/cli/terminal.h"
#include "fmt/format.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr int kLeastColumns = 12;        // of a picture, however narrow the matrix
constexpr double kLinesPerColumn = 0.5;  // a character is twice as high as wide
constexpr int kLabelEveryLines = 4;      // of a picture without boxes
constexpr double kToScale = 1.5;         // beyond this the caption owns up

struct StateLook {
  const char* name;
  const char* utf8;
  const char* ascii;
  int colour;  // of the terminal's eight
};
constexpr std::array kLooks = {
    StateLook{"shared with other versions", "░", ".", 6},
    StateLook{"only in this version", "▓", "#", 2},
    StateLook{"suspect", "?", "?", 3},
    StateLook{"missing", "×", "X", 1},
};
constexpr int kNoColour = -1;
constexpr int kBold = 8;  // beside the eight

const StateLook& LookOf(TileState state) { return kLooks[static_cast<size_t>(state)]; }

// The picture's size in characters, borders included.
struct Canvas {
  int columns = 0;
  int lines = 0;
  bool boxed = false;
  bool to_scale = true;
};

// The size nearest to `size` at which tiles are equally many whole characters long; at least what
// the boxes need, at most `most`, which is no less.
int SnapToTiles(const std::vector<uint64_t>& edges, double size, int least_step, int most) {
  double tiles = static_cast<double>(edges.back()) / static_cast<double>(edges[1]);
  int least = least_step * (static_cast<int>(edges.size()) - 1) + 1;
  auto snapped = [&](double step) { return static_cast<int>(std::lround(step * tiles)) + 1; };
  double step = std::round((size - 1) / tiles);
  if (snapped(step) > most) step -= 1;
  if (snapped(step) < least) step += 1;
  if (snapped(step) < least || snapped(step) > most) {
    return std::clamp(static_cast<int>(std::lround(size)), least, most);
  }
  return snapped(step);
}

Canvas ChooseCanvas(const TileMap& map, int max_columns, int max_lines) {
  uint64_t rows = map.row_edges.back();
  uint64_t columns = map.column_edges.back();
  size_t grid_rows = map.row_edges.size() - 1;
  size_t grid_columns = map.column_edges.size() - 1;
  double ratio = static_cast<double>(std::max<uint64_t>(1, rows)) /
                 static_cast<double>(std::max<uint64_t>(1, columns)) * kLinesPerColumn;
  double width = std::min<double>(max_columns, max_lines / ratio);
  double height = width * ratio;
  // Boxes: two characters inside and a border each way, and one border more.
  auto box_columns = static_cast<double>(grid_columns * 3 + 1);
  auto box_lines = static_cast<double>(grid_rows * 2 + 1);
  bool boxed = box_columns <= max_columns && box_lines <= max_lines;
  Canvas canvas;
  canvas.boxed = boxed;
  double least_columns = std::min<double>(max_columns, boxed ? box_columns : kLeastColumns);
  double least_lines = boxed ? box_lines : 1;
  width = std::max({width, least_columns, std::min<double>(kLeastColumns, max_columns)});
  height = std::max(height, least_lines);
  canvas.columns = boxed ? SnapToTiles(map.column_edges, width, 3, max_columns)
                         : static_cast<int>(std::lround(width));
  canvas.lines = boxed ? SnapToTiles(map.row_edges, height, 2, max_lines)
                       : static_cast<int>(std::lround(height));
  double drawn = static_cast<double>(canvas.lines) / canvas.columns;
  // Rounding to whole characters is no distortion.
  canvas.to_scale = drawn / ratio < kToScale && ratio / drawn < kToScale;
  return canvas;
}

// Where each edge of the tiles falls on `size` characters: edges[0] = 0, the last = size - 1, at
// least `gap` apart so that every box has an inside.
std::vector<int> PlaceEdges(const std::vector<uint64_t>& edges, int size, int gap) {
  size_t count = edges.size();
  auto total = static_cast<double>(edges.back());
  std::vector<int> at(count);
  for (size_t i = 0; i < count; ++i) {
    at[i] = static_cast<int>(std::lround(static_cast<double>(edges[i]) / total * (size - 1)));
  }
  for (size_t i = 1; i < count; ++i) at[i] = std::max(at[i], at[i - 1] + gap);
  at[count - 1] = size - 1;
  for (size_t i = count - 1; i-- > 0;) at[i] = std::min(at[i], at[i + 1] - gap);
  return at;
}

// The tile that the middle of character `at` of `size` shows, when there are no boxes.
std::pair<size_t, size_t> TilesAt(const std::vector<uint64_t>& edges, int at, int size) {
  auto total = static_cast<double>(edges.back());
  auto from = static_cast<uint64_t>(total * at / size);
  auto to = std::max(from + 1, static_cast<uint64_t>(total * (at + 1) / size));
  auto first = std::upper_bound(edges.begin(), edges.end(), from) - edges.begin() - 1;
  auto last = std::lower_bound(edges.begin(), edges.end(), to) - edges.begin();
  auto tiles = static_cast<ptrdiff_t>(edges.size()) - 1;
  first = std::clamp<ptrdiff_t>(first, 0, tiles - 1);
  return {static_cast<size_t>(first),
          static_cast<size_t>(std::clamp<ptrdiff_t>(last, first + 1, tiles))};
}

// Lines of cells, each a character with its colours, which are written in runs.
class Picture {
 public:
  Picture(int columns, int lines, const TileMapStyle& style)
      : style_(style), columns_(columns), cells_(static_cast<size_t>(columns * lines)) {}

  void Set(int column, int line, const char* glyph, int colour = kNoColour,
           int background = kNoColour) {
    cells_[Index(line, column)] = {glyph, colour, background};
  }
  void SetDigits(int column, int line, std::string_view digits) {
    static constexpr const char* kDigits[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    for (char c : digits) Set(column++, line, kDigits[c - '0'], kBold);
  }
  std::string Line(int line) const {
    std::string out;
    Cell last;
    for (int column = 0; column < columns_; ++column) {
      const Cell& cell = cells_[Index(line, column)];
      if (style_.colour && (cell.colour != last.colour || cell.background != last.background)) {
        out += "\x1b[0" + Code(cell) + "m";
      }
      last = cell;
      out += cell.glyph;
    }
    if (style_.colour && last.colour != kNoColour) out += "\x1b[0m";
    return out;
  }

 private:
  size_t Index(int line, int column) const {
    return static_cast<size_t>(line) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }
  struct Cell {
    const char* glyph = " ";
    int colour = kNoColour;
    int background = kNoColour;
  };
  static std::string Code(const Cell& cell) {
    std::string code;
    if (cell.colour == kBold) code += ";1";
    if (cell.colour >= 0 && cell.colour < 8) code += fmt::format(";3{}", cell.colour);
    if (cell.background != kNoColour) code += fmt::format(";4{}", cell.background);
    return code;
  }

  const TileMapStyle style_;
  const int columns_;
  std::vector<Cell> cells_;
};

const char* Glyph(TileState state, bool utf8) {
  return utf8 ? LookOf(state).utf8 : LookOf(state).ascii;
}

// The border's character, by which ways lines leave it.
const char* Corner(bool up, bool down, bool left, bool right, bool utf8) {
  if (!utf8)
    return (up || down) && !left && !right ? "|" : (left || right) && !up && !down ? "-" : "+";
  static constexpr const char* kCorners[] = {" ", "╴", "╶", "─", "╷", "┐", "┌", "┬",
                                             "╵", "┘", "└", "┴", "│", "┤", "├", "┼"};
  return kCorners[(up ? 8 : 0) + (down ? 4 : 0) + (right ? 2 : 0) + (left ? 1 : 0)];
}

void FillBox(Picture& picture, const std::vector<int>& xs, const std::vector<int>& ys, size_t row,
             size_t column, TileState state, const std::string& label, bool utf8) {
  for (int y = ys[row] + 1; y < ys[row + 1]; ++y) {
    for (int x = xs[column] + 1; x < xs[column + 1]; ++x) {
      picture.Set(x, y, Glyph(state, utf8), LookOf(state).colour);
    }
  }
  int inside = xs[column + 1] - xs[column] - 1;
  if (ys[row + 1] - ys[row] >= 3 && static_cast<int>(label.size()) + 2 <= inside) {
    int middle = (ys[row] + ys[row + 1]) / 2;
    int start = xs[column] + 1 + (inside - static_cast<int>(label.size())) / 2;
    picture.Set(start - 1, middle, " ");
    picture.SetDigits(start, middle, label);
    picture.Set(start + static_cast<int>(label.size()), middle, " ");
  }
}

void DrawBoxes(const TileMap& map, const std::vector<int>& xs, const std::vector<int>& ys,
               Picture& picture, bool utf8) {
  auto is_edge = [](const std::vector<int>& at, int value) {
    return std::binary_search(at.begin(), at.end(), value);
  };
  for (int y = 0; y <= ys.back(); ++y) {
    bool on_row = is_edge(ys, y);
    for (int x = 0; x <= xs.back(); ++x) {
      bool on_column = is_edge(xs, x);
      if (!on_row && !on_column) continue;
      picture.Set(x, y,
                  Corner(on_column && y > 0, on_column && y < ys.back(), on_row && x > 0,
                         on_row && x < xs.back(), utf8));
    }
  }
  size_t columns = xs.size() - 1;
  for (size_t row = 0; row + 1 < ys.size(); ++row) {
    for (size_t column = 0; column < columns; ++column) {
      size_t tile = row * columns + column;
      FillBox(picture, xs, ys, row, column, map.states[tile], std::to_string(tile), utf8);
    }
  }
}

// The worst state of the tiles under character (x, y) of a picture of this size.
TileState WorstAt(const TileMap& map, int x, int columns, int y, int lines) {
  size_t grid_columns = map.column_edges.size() - 1;
  auto [first_row, last_row] = TilesAt(map.row_edges, y, lines);
  auto [first_column, last_column] = TilesAt(map.column_edges, x, columns);
  TileState worst = TileState::kShared;
  for (size_t row = first_row; row < last_row; ++row) {
    for (size_t column = first_column; column < last_column; ++column) {
      worst = std::max(worst, map.states[row * grid_columns + column]);
    }
  }
  return worst;
}

// Without boxes. With colours a character shows two rows of the picture, by half blocks.
void DrawSummary(const TileMap& map, const Canvas& canvas, const TileMapStyle& style,
                 Picture& picture) {
  for (int y = 0; y < canvas.lines; ++y) {
    for (int x = 0; x < canvas.columns; ++x) {
      if (style.utf8 && style.colour) {
        TileState upper = WorstAt(map, x, canvas.columns, 2 * y, 2 * canvas.lines);
        TileState lower = WorstAt(map, x, canvas.columns, 2 * y + 1, 2 * canvas.lines);
        picture.Set(x, y, "▀", LookOf(upper).colour, LookOf(lower).colour);
      } else {
        TileState worst = WorstAt(map, x, canvas.columns, y, canvas.lines);
        picture.Set(x, y, Glyph(worst, style.utf8), LookOf(worst).colour);
      }
    }
  }
}

std::string RowLabel(const TileMap& map, size_t edge) {
  return map.row_labels.empty() ? FormatCount(map.row_edges[edge]) : map.row_labels[edge];
}

// Numbers above the picture, those that have room; the last one always, at the right end.
std::string ColumnAxis(const TileMap& map, const std::vector<int>& xs, int columns) {
  std::string line(static_cast<size_t>(columns), ' ');
  std::string last = FormatCount(map.column_edges.back());
  size_t last_start = line.size() > last.size() ? line.size() - last.size() : 0;
  size_t free_from = 0;
  for (size_t i = 0; i + 1 < map.column_edges.size() && i < xs.size(); ++i) {
    std::string label = FormatCount(map.column_edges[i]);
    auto at = static_cast<size_t>(xs[i]);
    if (at < free_from || at + label.size() + 1 > last_start) continue;
    line.replace(at, label.size(), label);
    free_from = at + label.size() + 1;
  }
  line.replace(last_start, std::min(last.size(), line.size()), last);
  return line;
}

std::string Legend(const TileMap& map, const TileMapStyle& style, bool boxed) {
  std::array<uint64_t, kLooks.size()> counts{};
  for (TileState state : map.states) ++counts[static_cast<size_t>(state)];
  Style paint(style.colour);
  std::string out;
  for (size_t i = 0; i < kLooks.size(); ++i) {
    if (counts[i] == 0) continue;
    if (!out.empty()) out += "   ";
    const char* glyph = style.utf8 ? kLooks[i].utf8 : kLooks[i].ascii;
    if (style.utf8 && style.colour && !boxed) glyph = "█";
    out += fmt::format("{} {} {}", paint.Wrap(fmt::format("3{}", kLooks[i].colour), glyph),
                       FormatCount(counts[i]), kLooks[i].name);
  }
  return out;
}

std::string Caption(const TileMap& map, const Canvas& canvas, int columns, int lines) {
  double across = static_cast<double>(map.column_edges.back()) / columns;
  double down = static_cast<double>(map.row_edges.back()) / lines;
  auto figure = [](double value) {
    if (value >= 10) return FormatCount(static_cast<uint64_t>(std::llround(value)));
    return value < 0.1 ? "<0.1" : fmt::format("{:.1f}", value);
  };
  std::string out =
      fmt::format("one character: {} columns x {} rows", figure(across), figure(down));
  if (!canvas.to_scale) out += "; proportions are not kept, so that the tiles can be seen";
  if (!canvas.boxed) {
    size_t tiles = map.states.size();
    if (tiles > static_cast<size_t>(columns) * static_cast<size_t>(lines)) {
      out += "; a character shows the worst of its tiles";
    }
  }
  return out;
}

}  // namespace

std::string RenderTileMap(const TileMap& map, const TileMapStyle& style) {
  if (map.states.empty()) return "";
  size_t grid_rows = map.row_edges.size() - 1;
  size_t grid_columns = map.column_edges.size() - 1;
  TILEKV_CHECK(map.states.size() == grid_rows * grid_columns);

  size_t label_width = 0;
  for (size_t i = 0; i <= grid_rows; ++i) {
    label_width = std::max(label_width, RowLabel(map, i).size());
  }
  int max_columns = std::max(kLeastColumns, style.width - static_cast<int>(label_width) - 2);
  Canvas canvas = ChooseCanvas(map, max_columns, style.max_lines);
  std::vector<int> xs = PlaceEdges(map.column_edges, canvas.columns, canvas.boxed ? 3 : 0);
  std::vector<int> ys = PlaceEdges(map.row_edges, canvas.lines, canvas.boxed ? 2 : 0);
  Picture picture(canvas.columns, canvas.lines, style);
  if (canvas.boxed) {
    DrawBoxes(map, xs, ys, picture, style.utf8);
  } else {
    DrawSummary(map, canvas, style, picture);
  }

  std::string margin(label_width + 1, ' ');
  std::string out = margin + ColumnAxis(map, xs, canvas.columns) + "\n";
  size_t edge = 0;
  for (int y = 0; y < canvas.lines; ++y) {
    std::string label;
    for (; edge <= grid_rows && ys[edge] <= y; ++edge) label = RowLabel(map, edge);
    // Where every line has its number, some are enough.
    if (!canvas.boxed && y % kLabelEveryLines != 0 && y + 1 < canvas.lines) label.clear();
    out += fmt::format("{:>{}} {}\n", label, label_width, picture.Line(y));
  }
  out += "\n" + margin + Legend(map, style, canvas.boxed) + "\n";
  return out + margin + Caption(map, canvas, canvas.columns, canvas.lines) + "\n";
}

}  // namespace tilekv
