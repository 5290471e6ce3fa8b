// Which tile shape a tensor gets: the rules of docs/formats.md, section 6. They choose only; what
// is read follows the stored tile shape. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kvstore/base/defaults.h"
#include "tensor_chunking/dtype.h"
#include "tensor_chunking/shape.h"
#include "tensor_chunking/tile_grid.h"

namespace tilekv {

enum class LayoutKind {
  kAuto,      // rows or bands, by shape and size
  kRows,      // row panels
  kBands,     // 8, 4 or 2 column bands of row panels, where they divide; else rows
  kExplicit,  // the tile shape of the request
};

struct LayoutRequest {
  LayoutKind kind = LayoutKind::kAuto;
  Shape tile_shape;  // kExplicit only; of the tensor's rank

  friend bool operator==(const LayoutRequest&, const LayoutRequest&) = default;
};

// "auto", "rows", "bands", or a tile shape: "1024x512". INVALID_ARGUMENT says what is taken.
absl::StatusOr<LayoutRequest> ParseLayout(std::string_view text);
std::string LayoutText(const LayoutRequest& request);

// The tile shape, valid for TileGrid::Create with the dtype, every tile within `max_object_bytes`.
// `tile_bytes` is the size aimed at, at least min(kLeastTileBytes, max_object_bytes).
// Tensors small enough for a pack are one tile, whatever is asked for. INVALID_ARGUMENT for a shape
// that overflows, a tile size below the least, an explicit tile shape of another rank, with tiles
// above the limit or more than kMaxExplicitTiles, or an edge inside a byte; and for a tensor of a
// dtype below a byte that cannot be cut on bytes within the limit.
absl::StatusOr<Shape> PlanLayout(DType dtype, ShapeSpan shape, const LayoutRequest& request,
                                 uint64_t tile_bytes, uint64_t max_object_bytes);

// Whether tiles of this shape can be stored: as for an explicit request, but not cut down to the
// tensor's shape. For a base's tile shape that a new version would take.
absl::Status CheckTileShape(DType dtype, ShapeSpan shape, ShapeSpan tile_shape,
                            uint64_t max_object_bytes);

}  // namespace tilekv
