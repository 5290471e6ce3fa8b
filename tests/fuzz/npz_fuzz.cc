// A whole .npz file: directory, members' headers, checksums.
#include <algorithm>

#include "kvstore/base/status.h"
#include "tensor_chunking/formats/npz.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tilekv;
  auto read = [&](uint64_t at, MutableBytes out) {
    TILEKV_CHECK(at <= size && out.size() <= size - at);
    std::copy_n(data + at, out.size(), out.begin());
    return absl::OkStatus();
  };
  auto npz = NpzFile::Open(read, size, "fuzz", [](std::string_view) { return std::nullopt; });
  if (!npz.ok()) return 0;
  bool right = npz->Verify(read).ok();
  for (const NpzFile::Member& member : npz->members()) {
    std::vector<uint8_t> content(member.header.data_bytes);
    bool came = member.content->Read(read, member.header.data_start, content).ok();
    TILEKV_CHECK(came || !right);
  }
  return 0;
}
