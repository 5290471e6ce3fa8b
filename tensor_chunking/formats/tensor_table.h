// What files say about their tensors, in flat memory: a row of fixed size for each tensor, names
// and shapes in an arena. A million tensors take some 100 MB less than they would as strings and
// vectors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tensor_chunking/dtype.h"

namespace tilekv {

// Views into a table or into the caller's memory.
struct TensorView {
  std::string_view name;  // any UTF-8 without NUL; may be empty, may look like a path, is none
  DType dtype{};
  std::span<const uint64_t> shape;
};

// A tensor and its bytes [begin, end) in a file's data.
struct TensorInfo : TensorView {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Bytes that are given out once and freed together; pointers stay valid, also when the arena moves.
class Arena {
 public:
  std::string_view Copy(std::string_view text);
  std::span<const uint64_t> Copy(std::span<const uint64_t> values);
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  char* Allocate(size_t bytes, size_t alignment);

  std::vector<std::unique_ptr<char[]>> chunks_;
  size_t used_ = 0;  // of the last chunk
  size_t capacity_ = 0;
  uint64_t memory_bytes_ = 0;
};

// Append only, then ordered. Movable; thread-compatible. Views live as long as the table (moves
// included).
class TensorTable {
 public:
  void Reserve(size_t tensors) { rows_.reserve(tensors); }
  // Copies name and shape. At most 2^32 - 1 tensors, names below 4 GiB, rank at most 255: the
  // callers' limits are far lower.
  void Add(const TensorInfo& tensor);
  // Orders by position in the data: begin, then end, then order of adding.
  void SortByRange();
  // Indices of the rows, by name bytewise, then by index.
  std::vector<uint32_t> IndexByName() const;

  size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  TensorInfo operator[](size_t index) const;
  uint64_t memory_bytes() const { return arena_.memory_bytes() + rows_.capacity() * sizeof(Row); }

 private:
  struct Row {
    const char* name;
    const uint64_t* shape;
    uint64_t begin;
    uint64_t end;
    uint32_t name_bytes;
    uint8_t rank;
    DType dtype;
  };
  std::string_view NameOf(const Row& row) const { return {row.name, row.name_bytes}; }

  Arena arena_;
  std::vector<Row> rows_;
};

}  // namespace tilekv
