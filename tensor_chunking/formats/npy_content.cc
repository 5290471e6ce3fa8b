#include "tensor_chunking/formats/npy_content.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kvstore/base/status.h"

namespace tilekv {
namespace {

// What is read in vain rather than in two reads: about what a call costs.
constexpr uint64_t kSpanGapBytes = 8 * kKiB;
constexpr uint64_t kBufferBytes = kTransposeBytes - 256 * kKiB;  // the rest are places of columns
constexpr size_t kMaxColumns = 8'192;                            // in the buffer at once
constexpr uint64_t kRowsAtOnce = 64;  // of one destination line each, while columns go by

// Reads a box of a Fortran-ordered file. There, elements along the first dimension lie side by
// side: one *column* for each index of the others. Columns come into the buffer in the file's
// order, near ones by one read, and go out as rows.
class ColumnReader {
 public:
  ColumnReader(const NpyHeader& header, ReadFileBytes read, uint8_t* out)
      : header_(header), read_(read), width_(DTypeBytes(header.dtype)), out_(out) {}

  absl::Status Read(const Region& box) {
    uint64_t columns = ProductOf(ShapeSpan(box.extent).subspan(1));
    uint64_t rows = box.extent[0];
    if (columns == 0 || rows == 0) return absl::OkStatus();
    row_bytes_ = columns * width_;
    // Long columns are taken in parts, so that several have room beside each other.
    uint64_t most = kBufferBytes / width_ / std::min<uint64_t>(columns, 16);
    for (uint64_t row = 0; row < rows; row += rows_) {
      rows_ = std::min(rows - row, most);
      TILEKV_RETURN_IF_ERROR(Columns(box, row));
      out_ += rows_ * row_bytes_;
    }
    return absl::OkStatus();
  }

 private:
  struct Column {
    uint64_t in_buffer;
    uint64_t in_row;  // where its element goes, in each row
  };

  // Rows [row, row + rows_) of the box.
  absl::Status Columns(const Region& box, uint64_t row) {
    const size_t rank = box.extent.size();
    // Strides of the file and of a row of the destination, in bytes.
    Shape file_stride(rank, width_);
    Shape row_stride(rank, width_);
    for (size_t d = 1; d < rank; ++d) file_stride[d] = file_stride[d - 1] * header_.shape[d - 1];
    for (size_t d = rank - 1; d-- > 1;) row_stride[d] = row_stride[d + 1] * box.extent[d + 1];
    uint64_t in_file = header_.data_start + (box.start[0] + row) * width_;
    for (size_t d = 1; d < rank; ++d) in_file += box.start[d] * file_stride[d];
    uint64_t in_row = 0;
    Shape at(rank, 0);
    while (true) {
      TILEKV_RETURN_IF_ERROR(Take(in_file, in_row));
      size_t d = 1;  // the first of the others changes quickest in the file
      for (; d < rank; ++d) {
        in_file += file_stride[d];
        in_row += row_stride[d];
        if (++at[d] < box.extent[d]) break;
        in_file -= at[d] * file_stride[d];
        in_row -= at[d] * row_stride[d];
        at[d] = 0;
      }
      if (d >= rank) break;
    }
    TILEKV_RETURN_IF_ERROR(ReadSpan());
    Turn();
    return absl::OkStatus();
  }

  absl::Status Take(uint64_t in_file, uint64_t in_row) {
    uint64_t bytes = rows_ * width_;
    uint64_t span_end = span_file_ + span_bytes_;
    bool near = span_bytes_ > 0 && in_file >= span_end && in_file - span_end <= kSpanGapBytes;
    uint64_t needed = near ? in_file + bytes - span_end : bytes;
    if (used_ + needed > kBufferBytes || columns_.size() == kMaxColumns) {
      TILEKV_RETURN_IF_ERROR(ReadSpan());
      Turn();
      near = false;
      needed = bytes;
    }
    if (!near) {
      TILEKV_RETURN_IF_ERROR(ReadSpan());
      span_file_ = in_file;
      span_buffer_ = used_;
    }
    used_ += needed;
    span_bytes_ = used_ - span_buffer_;
    columns_.push_back({used_ - bytes, in_row});
    return absl::OkStatus();
  }

  absl::Status ReadSpan() {
    if (span_bytes_ == 0) return absl::OkStatus();
    if (buffer_.size() < used_) buffer_.resize(used_);
    MutableBytes to(buffer_.data() + span_buffer_, span_bytes_);
    span_bytes_ = 0;
    return read_(span_file_, to);
  }

  void Turn() {
    switch (width_) {
      case 1:
        TurnColumns<1>();
        break;
      case 2:
        TurnColumns<2>();
        break;
      case 4:
        TurnColumns<4>();
        break;
      default:
        TILEKV_CHECK(width_ == 8);
        TurnColumns<8>();
    }
    columns_.clear();
    used_ = 0;
  }

  // A few rows at a time, so that their lines stay in the cache while columns fill them.
  template <size_t kWidth>
  void TurnColumns() const {
    for (uint64_t first = 0; first < rows_; first += kRowsAtOnce) {
      uint64_t end = std::min(rows_, first + kRowsAtOnce);
      for (const Column& column : columns_) {
        const uint8_t* from = buffer_.data() + column.in_buffer;
        uint8_t* to = out_ + column.in_row;
        for (uint64_t row = first; row < end; ++row) {
          std::memcpy(to + row * row_bytes_, from + row * kWidth, kWidth);
        }
      }
    }
  }

  const NpyHeader& header_;
  const ReadFileBytes read_;
  const uint64_t width_;
  uint8_t* out_;
  uint64_t row_bytes_ = 0;
  uint64_t rows_ = 0;  // in the buffer
  std::vector<uint8_t> buffer_;
  std::vector<Column> columns_;
  uint64_t used_ = 0;  // of the buffer, the open span included
  uint64_t span_file_ = 0;
  uint64_t span_buffer_ = 0;
  uint64_t span_bytes_ = 0;  // 0: none is open
};

// Elements [first, first + count) in row-major order, as the largest boxes that give them in order.
absl::Status ReadRange(const NpyHeader& header, ReadFileBytes read, uint64_t first, uint64_t count,
                       uint8_t* out) {
  const ShapeSpan shape = header.shape;
  while (count > 0) {
    size_t dim = 0;
    while (true) {
      uint64_t inner = ProductOf(shape.subspan(dim + 1));
      if (first % inner == 0 && count >= inner) break;
      ++dim;
    }
    uint64_t inner = ProductOf(shape.subspan(dim + 1));
    Region box = Region::Whole(shape);
    uint64_t index = first / inner;
    for (size_t d = dim + 1; d-- > 0;) {
      box.start[d] = index % shape[d];
      box.extent[d] = 1;
      index /= shape[d];
    }
    box.extent[dim] = std::min(count / inner, shape[dim] - box.start[dim]);
    TILEKV_RETURN_IF_ERROR(ColumnReader(header, read, out).Read(box));
    uint64_t done = box.extent[dim] * inner;
    first += done;
    count -= done;
    out += done * DTypeBytes(header.dtype);
  }
  return absl::OkStatus();
}

// A complex number is two numbers.
void SwapBytes(DType dtype, MutableBytes out) {
  size_t width = dtype == DType::kC64 ? 4 : DTypeBytes(dtype);
  for (size_t at = 0; at < out.size(); at += width) {
    std::reverse(out.begin() + at, out.begin() + at + width);
  }
}

}  // namespace

absl::Status ReadNpyContent(const NpyHeader& header, ReadFileBytes read, uint64_t offset,
                            MutableBytes out) {
  TILEKV_CHECK(out.size() <= header.data_bytes && offset <= header.data_bytes - out.size());
  if (out.empty()) return absl::OkStatus();
  if (!header.fortran_order && !header.big_endian) return read(header.data_start + offset, out);
  uint64_t width = DTypeBytes(header.dtype);
  if (offset % width != 0 || out.size() % width != 0) {
    uint64_t begin = offset / width * width;
    std::vector<uint8_t> whole(RoundUp(offset + out.size(), width) - begin);
    TILEKV_RETURN_IF_ERROR(ReadNpyContent(header, read, begin, whole));
    std::memcpy(out.data(), whole.data() + (offset - begin), out.size());
    return absl::OkStatus();
  }
  TILEKV_RETURN_IF_ERROR(
      header.fortran_order ? ReadRange(header, read, offset / width, out.size() / width, out.data())
                           : read(header.data_start + offset, out));
  if (header.big_endian) SwapBytes(header.dtype, out);
  return absl::OkStatus();
}

absl::Status ReadNpyBox(const NpyHeader& header, ReadFileBytes read, const Region& box,
                        MutableBytes out) {
  TILEKV_CHECK(header.fortran_order && box.extent.size() == header.shape.size() &&
               out.size() == ProductOf(box.extent) * DTypeBytes(header.dtype));
  TILEKV_RETURN_IF_ERROR(ColumnReader(header, read, out.data()).Read(box));
  if (header.big_endian) SwapBytes(header.dtype, out);
  return absl::OkStatus();
}

}  // namespace tilekv
