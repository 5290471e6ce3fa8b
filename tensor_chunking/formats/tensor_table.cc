#include "tensor_chunking/formats/tensor_table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>

#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr size_t kFirstArenaChunkBytes = 4 * kKiB;
constexpr size_t kArenaChunkBytes = 256 * kKiB;

}  // namespace

char* Arena::Allocate(size_t bytes, size_t alignment) {
  size_t at = RoundUp(used_, alignment);
  if (at > capacity_ || bytes > capacity_ - at) {
    size_t usual = chunks_.empty() ? kFirstArenaChunkBytes : kArenaChunkBytes;
    capacity_ = std::max(bytes, usual);
    chunks_.push_back(std::make_unique_for_overwrite<char[]>(capacity_));
    memory_bytes_ += capacity_;
    at = 0;
  }
  used_ = at + bytes;
  return chunks_.back().get() + at;
}

std::string_view Arena::Copy(std::string_view text) {
  if (text.empty()) return {};
  char* copy = Allocate(text.size(), 1);
  std::memcpy(copy, text.data(), text.size());
  return {copy, text.size()};
}

std::span<const uint64_t> Arena::Copy(std::span<const uint64_t> values) {
  if (values.empty()) return {};
  char* copy = Allocate(values.size_bytes(), alignof(uint64_t));
  std::memcpy(copy, values.data(), values.size_bytes());
  return {reinterpret_cast<const uint64_t*>(copy), values.size()};
}

void TensorTable::Add(const TensorInfo& tensor) {
  TILEKV_CHECK(tensor.shape.size() <= std::numeric_limits<uint8_t>::max());
  TILEKV_CHECK(tensor.name.size() <= std::numeric_limits<uint32_t>::max());
  TILEKV_CHECK(rows_.size() < std::numeric_limits<uint32_t>::max());
  rows_.push_back({.name = arena_.Copy(tensor.name).data(),
                   .shape = arena_.Copy(tensor.shape).data(),
                   .begin = tensor.begin,
                   .end = tensor.end,
                   .name_bytes = static_cast<uint32_t>(tensor.name.size()),
                   .rank = static_cast<uint8_t>(tensor.shape.size()),
                   .dtype = tensor.dtype});
}

void TensorTable::SortByRange() {
  auto before = [](const Row& a, const Row& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  };
  // Most writers put the tensors in this order already; a stable sort would take a copy.
  if (!std::is_sorted(rows_.begin(), rows_.end(), before)) {
    std::stable_sort(rows_.begin(), rows_.end(), before);
  }
}

std::vector<uint32_t> TensorTable::IndexByName() const {
  std::vector<uint32_t> order(rows_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
    int compared = NameOf(rows_[a]).compare(NameOf(rows_[b]));
    return compared != 0 ? compared < 0 : a < b;
  });
  return order;
}

TensorInfo TensorTable::operator[](size_t index) const {
  const Row& row = rows_[index];
  TensorInfo info;
  info.name = NameOf(row);
  info.dtype = row.dtype;
  info.shape = {row.shape, row.rank};
  info.begin = row.begin;
  info.end = row.end;
  return info;
}

}  // namespace tilekv
