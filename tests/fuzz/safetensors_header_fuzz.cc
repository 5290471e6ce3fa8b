// The JSON of a safetensors header, and the length in front of it.
#include <algorithm>

#include "kvstore/base/status.h"
#include "tensor_chunking/formats/safetensors_header.h"
#include "tests/fuzz/fuzz_input.h"

namespace tilekv {
namespace {

// What was taken is a whole file's table: laid out anew it has the same tensors and bytes.
void CheckTaken(std::string_view json, const SafetensorsHeader& header) {
  std::vector<TensorView> tensors;
  uint64_t at = 0;
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    TensorInfo info = header.tensors[i];
    TILEKV_CHECK(info.begin == at && info.end >= at);
    at = info.end;
    tensors.push_back({info.name, info.dtype, info.shape});
  }
  TILEKV_CHECK(header.by_name.size() == tensors.size());
  auto layout = LayOutSafetensors(tensors);
  TILEKV_CHECK(layout.ok() && layout->data_bytes == at);
  std::string built = BuildSafetensorsHeader(tensors, *layout, header.metadata);
  TILEKV_CHECK(IsReferenceForm(json, header) == (built == json));
  TILEKV_CHECK(ParseKeptSafetensorsHeader(built, "again").ok());
}

}  // namespace
}  // namespace tilekv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tilekv;
  Bytes bytes(data, size);
  Bytes start = bytes.first(std::min(size, kSafetensorsStartBytes));
  auto length = SafetensorsHeaderLength(start, size, "fuzz");
  TILEKV_CHECK(!length.ok() || *length <= size);
  auto header = ParseKeptSafetensorsHeader(AsText(bytes), "fuzz");
  if (header.ok()) CheckTaken(AsText(bytes), *header);
  return 0;
}
