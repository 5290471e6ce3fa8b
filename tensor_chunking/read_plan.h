// From a selection of a tensor to what must be read of which tiles, and where it goes.
//
// A plan holds what a selection takes of each dimension, and works out one tile's part when asked:
// it never visits tiles that the selection does not touch, and its size does not grow with what is
// read (rows by index: with their number). Pure; a plan is immutable and thread-safe. Offsets are
// within a tile's content; a reader adds where that lies in a pack.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/defaults.h"
#include "tensor_chunking/dtype.h"
#include "tensor_chunking/region_copy.h"
#include "tensor_chunking/slice.h"
#include "tensor_chunking/tile_grid.h"
#include "tensor_chunking/unit_shape.h"

namespace tilekv {

struct ReadOptions {
  // Ranges of a tile that are less than this apart are read as one.
  uint64_t merge_gap_bytes = kReadGapBytes;
  // Strides in bytes of the destination, one for each axis of the result, of either sign. Empty: C
  // order. The last ones must be those of C order where a dtype below a byte folds them.
  std::vector<int64_t> destination_strides;
};

// One range of a tile's content, and what goes from it to the destination.
struct TileRead {
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  // From a buffer with this range to the destination's first element; usually one.
  absl::InlinedVector<RegionCopy, 1> copies;

  // Whether the range is wanted whole and in one piece: read it straight to destination +
  // copies[0].dst_offset(), without a buffer.
  bool direct() const { return whole() && copies[0].contiguous(); }
  // Whether the range is wanted whole and goes to several places in pieces worth a copy each: put
  // them there as they come, without a buffer.
  bool placed() const {
    return whole() && !direct() && copies[0].source_in_order() &&
           copies[0].run_bytes() >= kLeastPlacedBytes;
  }

 private:
  static constexpr uint64_t kLeastPlacedBytes = 256;
  bool whole() const { return copies.size() == 1 && copies[0].bytes() == length_bytes; }
};

struct TileWork {
  uint64_t tile = 0;
  uint64_t tile_bytes = 0;  // of the whole tile's content
  uint64_t copied_bytes = 0;
  // Every element of the tile is taken, each once: an update need not read it first. Never set for
  // rows by index.
  bool covers_tile = false;
  std::vector<TileRead> reads;  // ascending, apart by the gap or more
};

class ReadPlan {
 public:
  // `slice` was resolved against the grid's shape. INVALID_ARGUMENT where a slice of a dtype below
  // a byte has an edge inside one.
  static absl::StatusOr<ReadPlan> Create(DType dtype, const TileGrid& grid,
                                         const ResolvedSlice& slice, ReadOptions options = {});
  // Rows of axis 0 in the order given, repeats allowed, negative from the end; the result has as
  // many rows. INVALID_ARGUMENT for rank 0, and for a row out of range, naming its place.
  static absl::StatusOr<ReadPlan> CreateRows(DType dtype, const TileGrid& grid,
                                             std::span<const int64_t> rows,
                                             ReadOptions options = {});

  const Shape& result_shape() const { return result_shape_; }
  uint64_t result_bytes() const { return result_bytes_; }
  // Tiles touched. Work(0) to Work(size() - 1) are in ascending order of tiles.
  uint64_t size() const { return size_; }
  TileWork Work(uint64_t index) const;

 private:
  // A run of indices of one dimension inside one tile.
  struct Piece {
    uint64_t start = 0;  // the first index, within the tile
    int64_t step = 1;    // of either sign
    uint64_t count = 0;
    uint64_t result = 0;  // where on the result's axis the first one goes
  };
  // What is taken of one row of tiles along one dimension.
  struct Hit {
    uint64_t coordinate = 0;
    uint64_t first_piece = 0;
    uint64_t pieces = 0;  // more than one only in dimension 0, for rows by index
  };
  struct Dim {
    uint64_t size = 0;
    uint64_t tile = 1;
    uint64_t tiles = 0;
    int64_t result_stride = 0;  // bytes in the destination
    std::vector<Hit> hits;      // ascending coordinates
    std::vector<Piece> all_pieces;
  };

  ReadPlan(DType dtype, ReadOptions options) : dtype_(dtype), options_(std::move(options)) {}

  absl::Status Init(const TileGrid& grid, const ResolvedSlice& slice);
  absl::Status InitStrides(const ResolvedSlice& slice, const UnitShape& units);
  absl::Status FoldSlice(const UnitShape& units, const ResolvedSlice& slice,
                         std::vector<SliceDim>& dims) const;
  static void AddSliceHits(const SliceDim& slice, Dim& dim);
  static void AddRowHits(std::span<const uint64_t> rows, Dim& dim);
  void Finish();
  void AddReads(std::span<const Piece> pieces, std::span<const uint64_t> extents,
                std::vector<TileRead>& reads) const;

  DType dtype_;
  ReadOptions options_;
  uint64_t unit_bytes_ = 1;
  std::vector<Dim> dims_;
  Shape result_shape_;
  uint64_t result_bytes_ = 0;
  uint64_t size_ = 0;
  bool by_rows_ = false;
};

}  // namespace tilekv
