#include "tensor_chunking/formats/npy_content.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr uint64_t kWindowBytes = 64 * kKiB;
// Elements further apart than this are read one by one.
constexpr uint64_t kWindowStrideBytes = 4 * kKiB;

// Reads pieces in rising or jumping order; near ones come out of one larger read.
class WindowReader {
 public:
  WindowReader(ReadFileBytes read, uint64_t end) : read_(read), end_(end) {}

  // `stride` is how far the next piece may be from this one. The view lives until the next call.
  absl::StatusOr<const uint8_t*> At(uint64_t offset, uint64_t bytes, uint64_t stride) {
    if (offset < start_ || offset + bytes > start_ + buffer_.size()) {
      uint64_t wanted = stride <= kWindowStrideBytes ? std::max(bytes, kWindowBytes) : bytes;
      buffer_.resize(std::min(wanted, end_ - offset));
      start_ = offset;
      TILEKV_RETURN_IF_ERROR(read_(offset, buffer_));
    }
    return buffer_.data() + (offset - start_);
  }

 private:
  const ReadFileBytes read_;
  const uint64_t end_;
  std::vector<uint8_t> buffer_;
  uint64_t start_ = 0;
};

// Gathers elements of a Fortran-ordered file.
class FortranGather {
 public:
  FortranGather(const NpyHeader& header, ReadFileBytes read)
      : header_(header),
        element_bytes_(DTypeBytes(header.dtype)),
        row_elements_(ProductOf(ShapeSpan(header.shape).subspan(1))),
        window_(read, header.data_start + header.data_bytes) {}

  absl::Status Read(uint64_t first, uint64_t count, uint8_t* out) {
    while (count > 0) {
      uint64_t row = first / row_elements_;
      uint64_t column = first % row_elements_;
      uint64_t done = 0;
      if (column == 0 && count >= row_elements_) {
        uint64_t rows = count / row_elements_;
        done = rows * row_elements_;
        TILEKV_RETURN_IF_ERROR(WholeRows(row, rows, out));
      } else {
        done = std::min(count, row_elements_ - column);
        TILEKV_RETURN_IF_ERROR(PartOfRow(row, column, done, out));
      }
      first += done;
      count -= done;
      out += done * element_bytes_;
    }
    return absl::OkStatus();
  }

 private:
  // Column: the index of an element within its row (dimensions 1 and up), row-major. File column:
  // the same in the file's order.
  uint64_t FileColumn(uint64_t column) const {
    uint64_t file_column = 0;
    uint64_t stride = row_elements_;
    for (size_t d = header_.shape.size(); d-- > 1;) {
      stride /= header_.shape[d];
      file_column += column % header_.shape[d] * stride;
      column /= header_.shape[d];
    }
    return file_column;
  }
  uint64_t Column(uint64_t file_column) const {
    uint64_t column = 0;
    uint64_t stride = row_elements_;
    for (size_t d = 1; d < header_.shape.size(); ++d) {
      stride /= header_.shape[d];
      column += file_column % header_.shape[d] * stride;
      file_column /= header_.shape[d];
    }
    return column;
  }
  uint64_t OffsetOf(uint64_t row, uint64_t file_column) const {
    return header_.data_start + (file_column * header_.shape[0] + row) * element_bytes_;
  }

  // In the file the rows of one column lie side by side: one run a column, in the file's order.
  absl::Status WholeRows(uint64_t row, uint64_t rows, uint8_t* out) {
    uint64_t run_bytes = rows * element_bytes_;
    uint64_t gap_bytes = header_.shape[0] * element_bytes_ - run_bytes;
    uint64_t row_bytes = row_elements_ * element_bytes_;
    for (uint64_t file_column = 0; file_column < row_elements_; ++file_column) {
      TILEKV_ASSIGN_OR_RETURN(const uint8_t* run,
                              window_.At(OffsetOf(row, file_column), run_bytes, gap_bytes));
      uint8_t* to = out + Column(file_column) * element_bytes_;
      for (uint64_t i = 0; i < rows; ++i) {
        std::memcpy(to + i * row_bytes, run + i * element_bytes_, element_bytes_);
      }
    }
    return absl::OkStatus();
  }

  absl::Status PartOfRow(uint64_t row, uint64_t column, uint64_t count, uint8_t* out) {
    // How far apart neighbours of a row are in the file: all dimensions but the last.
    uint64_t stride = header_.data_bytes / header_.shape.back();
    for (uint64_t i = 0; i < count; ++i) {
      TILEKV_ASSIGN_OR_RETURN(
          const uint8_t* element,
          window_.At(OffsetOf(row, FileColumn(column + i)), element_bytes_, stride));
      std::memcpy(out + i * element_bytes_, element, element_bytes_);
    }
    return absl::OkStatus();
  }

  const NpyHeader& header_;
  const uint64_t element_bytes_;
  const uint64_t row_elements_;
  WindowReader window_;
};

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
  if (header.fortran_order) {
    FortranGather gather(header, read);
    TILEKV_RETURN_IF_ERROR(gather.Read(offset / width, out.size() / width, out.data()));
  } else {
    TILEKV_RETURN_IF_ERROR(read(header.data_start + offset, out));
  }
  if (header.big_endian) SwapBytes(header.dtype, out);
  return absl::OkStatus();
}

}  // namespace tilekv
