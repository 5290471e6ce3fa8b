// A tensor in memory for tests, cut and sliced one element at a time, in bits: slow, plain, and
// apart from the code under test.
#pragma once

#include <cstdint>
#include <vector>

#include "kvstore/base/random.h"
#include "tensor_chunking/slice.h"
#include "tensor_chunking/tile_grid.h"

namespace tilekv {

class TestTensor {
 public:
  TestTensor(DType dtype, Shape shape, Random& random)
      : bits_(DTypeBits(dtype)), shape_(std::move(shape)) {
    bytes_.resize(*TensorBytes(dtype, shape_));
    for (uint8_t& byte : bytes_) byte = static_cast<uint8_t>(random.Next());
  }

  const std::vector<uint8_t>& bytes() const { return bytes_; }

  // The content of a tile: the elements of its region in C order.
  std::vector<uint8_t> Tile(const Region& region) const {
    ResolvedSlice slice;
    for (size_t d = 0; d < shape_.size(); ++d) {
      slice.dims.push_back({region.start[d], 1, region.extent[d], static_cast<int>(d)});
    }
    return Slice(slice.dims);
  }

  // The elements of a slice in C order.
  std::vector<uint8_t> Slice(const std::vector<SliceDim>& dims) const {
    uint64_t count = 1;
    for (const SliceDim& dim : dims) count *= dim.count;
    std::vector<uint8_t> out((count * bits_ + 7) / 8, 0);
    for (uint64_t e = 0; e < count; ++e) {
      uint64_t rest = e, index = 0, stride = 1;
      for (size_t d = dims.size(); d-- > 0;) {
        int64_t k = static_cast<int64_t>(rest % dims[d].count);
        index +=
            static_cast<uint64_t>(static_cast<int64_t>(dims[d].start) + k * dims[d].step) * stride;
        rest /= dims[d].count;
        stride *= shape_[d];
      }
      CopyElement(index, e, out);
    }
    return out;
  }

 private:
  void CopyElement(uint64_t from, uint64_t to, std::vector<uint8_t>& out) const {
    for (uint64_t b = 0; b < bits_; ++b) {
      uint64_t in_bit = from * bits_ + b, out_bit = to * bits_ + b;
      int bit = bytes_[in_bit / 8] >> (in_bit % 8) & 1;
      out[out_bit / 8] = static_cast<uint8_t>(out[out_bit / 8] | bit << (out_bit % 8));
    }
  }

  uint64_t bits_;
  Shape shape_;
  std::vector<uint8_t> bytes_;
};

}  // namespace tilekv
