// A picture of how a matrix is cut: its tiles drawn to scale in characters. Pure.
//
// The matrix's proportions are kept (a character is taken to be twice as high as wide) unless that
// would leave no room for the tiles; the caption then says so. Where every tile has room it gets a
// box; where not, a character stands for several tiles and shows the worst of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilekv {

// In order of how bad they are: a character that stands for several tiles shows the greatest.
enum class TileState : uint8_t {
  kShared,   // other versions hold it too
  kUnique,   // this version only
  kSuspect,  // no good copy, but one that may be
  kMissing,  // no copy
};

struct TileMap {
  // Where tiles begin, and the end: one more than there are tiles along that side. Increasing.
  std::vector<uint64_t> row_edges;
  std::vector<uint64_t> column_edges;
  // Of row_edges, where they are not simply rows: "[3,0]" of a tensor of rank 3. Empty: the
  // numbers.
  std::vector<std::string> row_labels;
  std::vector<TileState> states;  // by rows
};

struct TileMapStyle {
  int width = 80;      // columns of the terminal
  int max_lines = 24;  // of the picture itself
  bool utf8 = false;
  bool colour = false;
};

// Lines ended by '\n': the column axis, the picture with the row axis, a legend of the states that
// occur, and a caption with the scale. "" for a map without tiles.
std::string RenderTileMap(const TileMap& map, const TileMapStyle& style);

}  // namespace tilekv
