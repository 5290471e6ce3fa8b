#include "tensor_chunking/layout.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "tensor_chunking/pack.h"

namespace tilekv {
namespace {

constexpr uint64_t kTallFactor = 8;  // rows to columns, from which on bands would be slivers
// No tensor is larger, and bits still fit: stands for "no limit".
constexpr uint64_t kUnlimitedBytes = uint64_t{1} << 60;

// Plans one tensor. Sizes of parts are in bits: every product here divides the tensor's size, which
// is below 2^64 bits.
class Planner {
 public:
  Planner(DType dtype, ShapeSpan shape, LayoutKind kind, uint64_t target_bytes,
          uint64_t limit_bytes)
      : dtype_(dtype),
        shape_(shape),
        kind_(kind),
        target_bytes_(std::min(target_bytes, kUnlimitedBytes)),
        limit_bytes_(std::min(limit_bytes, kUnlimitedBytes)),
        tile_(shape.begin(), shape.end()) {}

  absl::StatusOr<Shape> Plan() {
    size_t axis = 0;
    // Slabs above the target are cut inside: the first dimension goes tile by tile of one.
    for (; shape_.size() - axis > 2 && !PanelsFit(BitsOfOne(axis)); ++axis) tile_[axis] = 1;
    size_t rank = shape_.size() - axis;
    if (rank == 2) {
      TILEKV_RETURN_IF_ERROR(PlanMatrix(axis));
    } else {
      TILEKV_RETURN_IF_ERROR(SetPanels(axis, shape_[axis], BitsOfOne(axis)));
    }
    return tile_;
  }

 private:
  // Of one index of this dimension.
  uint64_t BitsOfOne(size_t axis) const {
    return DTypeBits(dtype_) * ProductOf(shape_.subspan(axis + 1));
  }
  // The least number of things of `bits` that is whole bytes.
  static uint64_t Granule(uint64_t bits) { return 8 / std::gcd<uint64_t>(bits, 8); }
  // Whether a panel need not cut a thing: it is within the target, or does not end on a byte and so
  // cannot be cut inside.
  bool PanelsFit(uint64_t bits) const { return bits % 8 != 0 || bits / 8 <= target_bytes_; }

  // Panels of `count` things of `bits` each, equal in height, near the target and within the limit.
  std::optional<uint64_t> PanelHeight(uint64_t count, uint64_t bits) const {
    uint64_t granule = Granule(bits);
    // A panel may exceed the target by less than a thing, but never the limit.
    uint64_t greatest = limit_bytes_ * 8 / bits;
    if (greatest < std::min(granule, count)) return std::nullopt;
    uint64_t panels = std::max<uint64_t>(1, CeilDiv(CeilDiv(count * bits, 8), target_bytes_));
    uint64_t height = RoundUp(CeilDiv(count, panels), granule);
    if (height > greatest) {
      uint64_t whole = greatest / granule * granule;
      if (whole == 0) return std::nullopt;
      height = RoundUp(CeilDiv(count, CeilDiv(count, whole)), granule);
    }
    return std::min(height, count);
  }

  absl::Status SetPanels(size_t axis, uint64_t count, uint64_t bits) {
    std::optional<uint64_t> height = PanelHeight(count, bits);
    if (!height.has_value()) {
      return MakeError(
          Reason::kInvalidArgument,
          fmt::format("{} of shape {} cannot be cut on whole bytes into objects of at most {} "
                      "bytes ({}): {} bits an index of axis {}",
                      DTypeName(dtype_), FormatShape(shape_), FormatCount(limit_bytes_),
                      FormatSizeShort(limit_bytes_), bits, axis));
    }
    tile_[axis] = *height;
    return absl::OkStatus();
  }

  // How many bands the matrix's columns are cut into; 1: rows.
  uint64_t Bands(uint64_t rows, uint64_t columns) const {
    if (kind_ == LayoutKind::kRows) return 1;
    if (kind_ == LayoutKind::kAuto) {
      uint64_t bytes = rows * columns * DTypeBits(dtype_) / 8;
      if (rows / kTallFactor >= columns || bytes < kMinBandedBytes) return 1;
    }
    for (uint64_t bands : {8, 4, 2}) {
      uint64_t bits = columns / bands * DTypeBits(dtype_);
      if (columns % bands == 0 && bits % 8 == 0 && bits / 8 >= kMinBandRowBytes) return bands;
    }
    return 1;
  }

  absl::Status PlanMatrix(size_t axis) {
    uint64_t rows = shape_[axis];
    uint64_t columns = shape_[axis + 1];
    uint64_t width = columns / Bands(rows, columns);
    uint64_t bits = width * DTypeBits(dtype_);
    if (PanelsFit(bits)) {
      tile_[axis + 1] = width;
      return SetPanels(axis, rows, bits);
    }
    tile_[axis] = 1;
    return SetPanels(axis + 1, width, DTypeBits(dtype_));
  }

  const DType dtype_;
  const ShapeSpan shape_;
  const LayoutKind kind_;
  const uint64_t target_bytes_;
  const uint64_t limit_bytes_;
  Shape tile_;
};

absl::Status CheckTileBytes(uint64_t tile_bytes, uint64_t max_object_bytes) {
  uint64_t least = std::min(kLeastTileBytes, max_object_bytes);
  if (tile_bytes >= least && max_object_bytes > 0) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("tile size {} bytes is below {}", FormatCount(tile_bytes),
                               FormatSizeShort(std::max<uint64_t>(least, 1))));
}

}  // namespace

absl::StatusOr<LayoutRequest> ParseLayout(std::string_view text) {
  if (text == "auto") return LayoutRequest{};
  if (text == "rows") return LayoutRequest{LayoutKind::kRows, {}};
  if (text == "bands") return LayoutRequest{LayoutKind::kBands, {}};
  LayoutRequest request{LayoutKind::kExplicit, {}};
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    uint64_t size = 0;
    auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size == 0 || (next != end && *next != 'x')) break;
    request.tile_shape.push_back(size);
    if (next == end) return request;
    at = next + 1;
  }
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("layout '{}' is not auto, rows, bands or a tile shape such as "
                               "1024x512",
                               Printable(text)));
}

std::string LayoutText(const LayoutRequest& request) {
  switch (request.kind) {
    case LayoutKind::kAuto:
      return "auto";
    case LayoutKind::kRows:
      return "rows";
    case LayoutKind::kBands:
      return "bands";
    case LayoutKind::kExplicit:
      break;
  }
  std::string text;
  for (uint64_t size : request.tile_shape)
    text += fmt::format("{}{}", text.empty() ? "" : "x", size);
  return text;
}

absl::Status CheckTileShape(DType dtype, ShapeSpan shape, ShapeSpan tile_shape,
                            uint64_t max_object_bytes) {
  TILEKV_ASSIGN_OR_RETURN(TileGrid grid, TileGrid::Create(dtype, shape, tile_shape));
  if (grid.tile_count() == 0) return absl::OkStatus();
  // The first tile is the greatest.
  uint64_t bytes = grid.TileBytes(dtype, 0);
  if (bytes > max_object_bytes) {
    return MakeError(
        Reason::kInvalidArgument,
        fmt::format(
            "tiles {} of {} are {} bytes ({}); this store takes objects up to {} bytes ({})",
            FormatShape(tile_shape), DTypeName(dtype), FormatCount(bytes), FormatSize(bytes),
            FormatCount(max_object_bytes), FormatSizeShort(max_object_bytes)));
  }
  if (grid.tile_count() > kMaxExplicitTiles) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("tiles {} would cut shape {} into {} tiles; at most {} are taken",
                                 FormatShape(tile_shape), FormatShape(shape),
                                 FormatCount(grid.tile_count()), FormatCount(kMaxExplicitTiles)));
  }
  return absl::OkStatus();
}

namespace {

// Widened from the last dimension on until a tile has the least size.
Shape LeastTileLike(DType dtype, ShapeSpan shape, Shape tile, uint64_t least_bytes) {
  for (size_t d = tile.size(); d-- > 0;) {
    auto grid = TileGrid::Create(dtype, shape, tile);
    // On whole bytes still: a multiple of what is.
    uint64_t bytes = grid.ok() ? grid->TileBytes(dtype, 0) : least_bytes;
    uint64_t times = (least_bytes + bytes - 1) / std::max<uint64_t>(1, bytes);
    tile[d] = std::min(shape[d], tile[d] * std::max<uint64_t>(1, times));
  }
  return tile;
}

// A million objects of a few bytes are nobody's wish, and take hours to store and to collect.
absl::Status CheckNoSliver(DType dtype, ShapeSpan shape, const Shape& tile,
                           uint64_t max_object_bytes) {
  TILEKV_ASSIGN_OR_RETURN(TileGrid grid, TileGrid::Create(dtype, shape, tile));
  constexpr uint64_t kFewTiles = kMaxExplicitTiles / 16;
  const uint64_t least_bytes = std::min(kLeastExplicitTileBytes, max_object_bytes / 4);
  uint64_t bytes = grid.TileBytes(dtype, 0);
  if (grid.tile_count() <= kFewTiles || bytes >= least_bytes) return absl::OkStatus();
  return MakeError(
      Reason::kInvalidArgument,
      fmt::format("tiles {} of {} are {} bytes; of more than {} tiles each has {} at least, as {} "
                  "has for shape {}",
                  FormatShape(tile), DTypeName(dtype), FormatCount(bytes), FormatCount(kFewTiles),
                  FormatSizeShort(least_bytes),
                  FormatShape(LeastTileLike(dtype, shape, tile, least_bytes)), FormatShape(shape)));
}

}  // namespace

absl::StatusOr<Shape> PlanLayout(DType dtype, ShapeSpan shape, const LayoutRequest& request,
                                 uint64_t tile_bytes, uint64_t max_object_bytes) {
  TILEKV_RETURN_IF_ERROR(CheckTileBytes(tile_bytes, max_object_bytes));
  TILEKV_ASSIGN_OR_RETURN(uint64_t bytes, TensorBytes(dtype, shape));
  bool is_explicit = request.kind == LayoutKind::kExplicit;
  if (is_explicit && request.tile_shape.size() != shape.size()) {
    return TileGrid::Create(shape, request.tile_shape).status();
  }
  Shape tile(shape.begin(), shape.end());
  for (uint64_t& size : tile) size = std::max<uint64_t>(1, size);
  if (bytes == 0 || shape.empty() || GoesToPack(bytes, max_object_bytes)) return tile;
  if (!is_explicit) {
    return Planner(dtype, shape, request.kind, std::min(tile_bytes, max_object_bytes),
                   max_object_bytes)
        .Plan();
  }
  for (size_t d = 0; d < tile.size(); ++d) tile[d] = std::min(tile[d], request.tile_shape[d]);
  TILEKV_RETURN_IF_ERROR(CheckTileShape(dtype, shape, tile, max_object_bytes));
  TILEKV_RETURN_IF_ERROR(CheckNoSliver(dtype, shape, tile, max_object_bytes));
  return tile;
}

}  // namespace tilekv
