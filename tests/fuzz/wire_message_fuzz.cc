// The messages framed by hand: exactly what protobuf's own parser takes is taken, with the same
// meaning, however the bytes are split. The first byte is where.
#include <algorithm>

#include "kvstore/base/status.h"
#include "kvstore/wire/bulk_frame.h"
#include "tests/fuzz/fuzz_input.h"
#include "tilekv/v1/service.pb.h"

namespace tilekv {
namespace {

template <typename M>
void Check(Bytes message, size_t split) {
  M parsed;
  bool right = parsed.ParseFromArray(message.data(), static_cast<int>(message.size()));
  split = std::min(split, message.size());
  const Bytes pieces[] = {message.first(split), message.subspan(split)};
  M fields;
  std::vector<Bytes> data;
  bool taken = DecodeBulk(pieces, fields, data).ok();
  TILEKV_CHECK(taken == right);
  if (!taken) return;
  std::string joined;
  for (Bytes piece : data) joined += AsText(piece);
  TILEKV_CHECK(joined == parsed.data());
  TILEKV_CHECK(fields.data().empty());
  // Framed again, it is the same message.
  M again;
  TILEKV_CHECK(again.ParseFromString(EncodeBulkHead(fields, joined.size()) + joined));
  TILEKV_CHECK(again.data() == joined);
  again.clear_data();
  TILEKV_CHECK(again.SerializeAsString() == fields.SerializeAsString());
}

}  // namespace
}  // namespace tilekv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tilekv;
  if (size == 0) return 0;
  Bytes message(data + 1, size - 1);
  Check<v1::PutObjectRequest>(message, data[0]);
  Check<v1::ReadObjectsResponse>(message, data[0]);
  Check<v1::PutValueRequest>(message, data[0]);
  return 0;
}
