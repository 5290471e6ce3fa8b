// A whole .npy file: header and, where it is taken, all content and a box of it.
#include <algorithm>

#include "kvstore/base/status.h"
#include "tensor_chunking/formats/npy.h"
#include "tensor_chunking/formats/npy_content.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tilekv;
  Bytes file(data, size);
  auto start = NpyDataStart(file.first(std::min(size, kNpyStartBytes)), size, "fuzz");
  if (!start.ok()) return 0;
  TILEKV_CHECK(*start <= size);
  for (std::optional<DType> dtype : {std::optional<DType>(), std::optional(DType::kBF16)}) {
    auto header = ParseNpyHeader(file.first(*start), size, "fuzz", dtype);
    if (!header.ok()) continue;
    TILEKV_CHECK(header->data_start + header->data_bytes == size);
    auto read = [&](uint64_t at, MutableBytes out) {
      TILEKV_CHECK(at <= size && out.size() <= size - at);
      std::copy_n(data + at, out.size(), out.begin());
      return absl::OkStatus();
    };
    std::vector<uint8_t> whole(header->data_bytes);
    TILEKV_CHECK(ReadNpyContent(*header, read, 0, whole).ok());
    // A range anywhere is that part of the whole.
    size_t begin = whole.size() / 3;
    std::vector<uint8_t> part(whole.size() / 2 - begin);
    TILEKV_CHECK(ReadNpyContent(*header, read, begin, part).ok());
    TILEKV_CHECK(std::equal(part.begin(), part.end(), whole.begin() + begin));
    if (!header->fortran_order) continue;
    std::vector<uint8_t> box(whole.size());
    TILEKV_CHECK(ReadNpyBox(*header, read, Region::Whole(header->shape), box).ok());
    TILEKV_CHECK(box == whole);
  }
  return 0;
}
