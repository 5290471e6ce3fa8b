#include "tensor_chunking/read_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

absl::Status BadStrides(std::string text) {
  return MakeError(Reason::kInvalidArgument, "destination strides: " + text);
}

// Puts the next read at the end, or into the last one where they are close.
void AppendRead(TileRead read, uint64_t merge_gap_bytes, std::vector<TileRead>& reads) {
  if (reads.empty()) {
    reads.push_back(std::move(read));
    return;
  }
  TileRead& last = reads.back();
  uint64_t end = last.offset_bytes + last.length_bytes;
  if (read.offset_bytes > end && read.offset_bytes - end >= merge_gap_bytes) {
    reads.push_back(std::move(read));
    return;
  }
  int64_t shift = static_cast<int64_t>(read.offset_bytes - last.offset_bytes);
  for (const RegionCopy& copy : read.copies) last.copies.push_back(copy.WithSourceShifted(shift));
  last.length_bytes = std::max(end, read.offset_bytes + read.length_bytes) - last.offset_bytes;
}

}  // namespace

absl::StatusOr<ReadPlan> ReadPlan::Create(DType dtype, const TileGrid& grid,
                                          const ResolvedSlice& slice, ReadOptions options) {
  ReadPlan plan(dtype, std::move(options));
  TILEKV_RETURN_IF_ERROR(plan.Init(grid, slice));
  plan.Finish();
  return plan;
}

absl::StatusOr<ReadPlan> ReadPlan::CreateRows(DType dtype, const TileGrid& grid,
                                              std::span<const int64_t> rows, ReadOptions options) {
  if (grid.rank() == 0) {
    return MakeError(Reason::kInvalidArgument, "a tensor of rank 0 has no rows");
  }
  const int64_t size = static_cast<int64_t>(grid.shape()[0]);
  std::vector<uint64_t> absolute(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < -size || rows[i] >= size) {
      return MakeError(
          Reason::kInvalidArgument,
          fmt::format("row index {} (number {} of the list) is out of range for axis 0 "
                      "of size {}",
                      rows[i], i, size));
    }
    absolute[i] = static_cast<uint64_t>(rows[i] < 0 ? rows[i] + size : rows[i]);
  }
  ResolvedSlice slice = WholeSlice(grid.shape());
  slice.result_shape[0] = rows.size();
  ReadPlan plan(dtype, std::move(options));
  plan.by_rows_ = true;
  TILEKV_ASSIGN_OR_RETURN(UnitShape units, UnitShape::Of(dtype, grid.shape()));
  if (units.folded() && units.fold_axis() == 0 && grid.tile_count() > 0) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("a row of {} of shape {} is not whole bytes", DTypeName(dtype),
                                 FormatShape(grid.shape())));
  }
  TILEKV_RETURN_IF_ERROR(plan.Init(grid, slice));
  if (plan.result_bytes_ > 0) {
    plan.dims_[0].hits.clear();
    plan.dims_[0].all_pieces.clear();
    AddRowHits(absolute, plan.dims_[0]);
  }
  plan.Finish();
  return plan;
}

absl::Status ReadPlan::Init(const TileGrid& grid, const ResolvedSlice& slice) {
  TILEKV_CHECK(slice.dims.size() == grid.rank());
  TILEKV_ASSIGN_OR_RETURN(UnitShape units, UnitShape::Of(dtype_, grid.shape()));
  TILEKV_ASSIGN_OR_RETURN(Shape tile_units, units.FoldTileShape(grid.tile_shape()));
  unit_bytes_ = units.unit_bytes();
  result_shape_ = slice.result_shape;
  uint64_t elements = 0;
  TILEKV_ASSIGN_OR_RETURN(elements, ElementCount(result_shape_));
  if (grid.tile_count() == 0 || elements == 0) return absl::OkStatus();
  std::vector<SliceDim> selected;
  TILEKV_RETURN_IF_ERROR(FoldSlice(units, slice, selected));
  TILEKV_ASSIGN_OR_RETURN(result_bytes_, TensorBytes(dtype_, result_shape_));
  dims_.resize(selected.size());
  for (size_t d = 0; d < dims_.size(); ++d) {
    dims_[d].size = units.dims()[d];
    dims_[d].tile = tile_units[d];
    dims_[d].tiles = CeilDiv(dims_[d].size, dims_[d].tile);
    AddSliceHits(selected[d], dims_[d]);
  }
  return InitStrides(slice, units);
}

absl::Status ReadPlan::FoldSlice(const UnitShape& units, const ResolvedSlice& slice,
                                 std::vector<SliceDim>& dims) const {
  dims = slice.dims;
  if (!units.folded()) return absl::OkStatus();
  Region region;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d >= units.fold_axis() && dims[d].step != 1) {
      return MakeError(Reason::kInvalidArgument,
                       fmt::format("a step of {} in axis {} would cut inside a byte of {}",
                                   dims[d].step, d, DTypeName(dtype_)));
    }
    region.start.push_back(dims[d].start);
    region.extent.push_back(dims[d].count);
  }
  TILEKV_ASSIGN_OR_RETURN(Region folded, units.FoldRegion(region));
  dims.resize(units.fold_axis() + 1);
  dims.back().start = folded.start.back();
  dims.back().count = folded.extent.back();
  return absl::OkStatus();
}

absl::Status ReadPlan::InitStrides(const ResolvedSlice& slice, const UnitShape& units) {
  const std::vector<int64_t>& given = options_.destination_strides;
  const Shape& shape = result_shape_;
  if (!given.empty() && given.size() != shape.size()) {
    return BadStrides(fmt::format("{} for a result of {} dimensions", given.size(), shape.size()));
  }
  // In bits, so that those of a dtype below a byte come out whole where they are used.
  const uint64_t bits = DTypeBits(dtype_);
  uint64_t dense_bits = bits;
  std::vector<int64_t> strides(shape.size());
  std::vector<bool> dense(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = static_cast<int64_t>(dense_bits / 8);
    dense[axis] = given.empty() || given[axis] == strides[axis];
    if (!given.empty()) strides[axis] = given[axis];
    dense_bits *= shape[axis];
  }
  for (size_t d = 0; d < slice.dims.size(); ++d) {
    int axis = slice.dims[d].axis;
    if (units.folded() && d >= units.fold_axis()) {
      // Bytes, one after another, whatever the elements are.
      if (d == units.fold_axis()) dims_[d].result_stride = 1;
      if (axis >= 0 && shape[axis] > 1 && !dense[axis]) {
        return BadStrides(
            fmt::format("axis {} of a {} result must be in C order", axis, DTypeName(dtype_)));
      }
    } else if (axis >= 0) {
      dims_[d].result_stride = strides[axis];
    }
  }
  return absl::OkStatus();
}

void ReadPlan::AddSliceHits(const SliceDim& slice, Dim& dim) {
  const uint64_t step = static_cast<uint64_t>(slice.step < 0 ? -slice.step : slice.step);
  // Ascending in the tensor; a negative step meets the result from its end.
  const uint64_t lowest = slice.step < 0 ? slice.start - (slice.count - 1) * step : slice.start;
  for (uint64_t done = 0; done < slice.count;) {
    const uint64_t at = lowest + done * step;
    Hit hit{at / dim.tile, dim.all_pieces.size(), 1};
    const uint64_t end = std::min(dim.size, (hit.coordinate + 1) * dim.tile);
    const uint64_t count = std::min(slice.count - done, CeilDiv(end - at, step));
    Piece piece{at - hit.coordinate * dim.tile, slice.step, count, done};
    if (slice.step < 0) {
      piece.start += (count - 1) * step;
      piece.result = slice.count - done - count;
    }
    dim.all_pieces.push_back(piece);
    dim.hits.push_back(hit);
    done += count;
  }
}

void ReadPlan::AddRowHits(std::span<const uint64_t> rows, Dim& dim) {
  std::vector<uint64_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint64_t a, uint64_t b) { return rows[a] < rows[b]; });
  for (uint64_t place : order) {
    const uint64_t coordinate = rows[place] / dim.tile;
    const uint64_t start = rows[place] % dim.tile;
    if (dim.hits.empty() || dim.hits.back().coordinate != coordinate) {
      dim.hits.push_back({coordinate, dim.all_pieces.size(), 0});
    } else if (Piece& last = dim.all_pieces.back();
               last.start + last.count == start && last.result + last.count == place) {
      ++last.count;
      continue;
    }
    dim.all_pieces.push_back({start, 1, 1, place});
    ++dim.hits.back().pieces;
  }
}

void ReadPlan::Finish() {
  size_ = result_bytes_ == 0 ? 0 : 1;
  for (const Dim& dim : dims_) size_ *= dim.hits.size();
}

TileWork ReadPlan::Work(uint64_t index) const {
  TILEKV_CHECK(index < size_);
  const size_t rank = dims_.size();
  std::vector<Piece> pieces(rank);
  std::vector<uint64_t> extents(rank);
  const Hit* first = nullptr;
  TileWork work;
  uint64_t scale = 1;  // tiles of the dimensions after this one
  uint64_t tile_units = 1;
  for (size_t d = rank; d-- > 0;) {
    const Dim& dim = dims_[d];
    const Hit& hit = dim.hits[index % dim.hits.size()];
    index /= dim.hits.size();
    work.tile += hit.coordinate * scale;
    scale *= dim.tiles;
    extents[d] = std::min(dim.tile, dim.size - hit.coordinate * dim.tile);
    tile_units *= extents[d];
    pieces[d] = dim.all_pieces[hit.first_piece];
    first = &hit;
  }
  work.tile_bytes = tile_units * unit_bytes_;
  if (rank == 0) {
    AddReads(pieces, extents, work.reads);
  } else {
    for (uint64_t p = 0; p < first->pieces; ++p) {
      pieces[0] = dims_[0].all_pieces[first->first_piece + p];
      AddReads(pieces, extents, work.reads);
    }
  }
  for (const TileRead& read : work.reads) {
    for (const RegionCopy& copy : read.copies) work.copied_bytes += copy.bytes();
  }
  work.covers_tile = !by_rows_ && work.copied_bytes == work.tile_bytes;
  return work;
}

void ReadPlan::AddReads(std::span<const Piece> pieces, std::span<const uint64_t> extents,
                        std::vector<TileRead>& reads) const {
  const size_t rank = pieces.size();
  const auto tile_strides = DenseStrides(unit_bytes_, extents);
  absl::InlinedVector<CopyDim, 4> dims(rank);
  int64_t lowest = 0;  // the first byte that is read
  int64_t src = 0;     // the first unit of the result
  int64_t dst = 0;
  for (size_t d = 0; d < rank; ++d) {
    const Piece& piece = pieces[d];
    const int64_t stride = tile_strides[d] * piece.step;
    dims[d] = {piece.count, stride, dims_[d].result_stride};
    src += static_cast<int64_t>(piece.start) * tile_strides[d];
    if (stride < 0) lowest += static_cast<int64_t>(piece.count - 1) * stride;
    dst += static_cast<int64_t>(piece.result) * dims_[d].result_stride;
  }
  lowest += src;
  // Inner dimensions without a wide gap are one range; the outer ones are counted through.
  uint64_t span = unit_bytes_;
  size_t outer = rank;
  for (; outer > 0; --outer) {
    const CopyDim& dim = dims[outer - 1];
    if (dim.count == 1) continue;
    const uint64_t stride =
        static_cast<uint64_t>(dim.src_stride < 0 ? -dim.src_stride : dim.src_stride);
    if (stride > span && stride - span >= options_.merge_gap_bytes) break;
    span += (dim.count - 1) * stride;
  }
  // Ascending ranges: along a negative stride from its end.
  int64_t inner_first = src - lowest;
  std::vector<uint64_t> counter(outer, 0);
  for (size_t d = 0; d < outer; ++d) {
    if (dims[d].src_stride >= 0) continue;
    inner_first += static_cast<int64_t>(dims[d].count - 1) * dims[d].src_stride;
    dst += static_cast<int64_t>(dims[d].count - 1) * dims[d].dst_stride;
  }
  while (true) {
    int64_t at = lowest;
    int64_t to = dst;
    for (size_t d = 0; d < outer; ++d) {
      const int64_t sign = dims[d].src_stride < 0 ? -1 : 1;
      at += static_cast<int64_t>(counter[d]) * dims[d].src_stride * sign;
      to += static_cast<int64_t>(counter[d]) * dims[d].dst_stride * sign;
    }
    TileRead read{static_cast<uint64_t>(at), span, {}};
    read.copies.emplace_back(unit_bytes_, inner_first, to, std::span(dims).subspan(outer));
    AppendRead(std::move(read), options_.merge_gap_bytes, reads);
    size_t d = outer;
    while (d > 0 && ++counter[d - 1] == dims[d - 1].count) counter[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace tilekv
