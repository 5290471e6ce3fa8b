// A payload file: its header, and a stored block of a coded object. The first byte chooses the
// encoding, the next four are the block's entry in the table, three more how long it should be.
#include <algorithm>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/payload_file.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tilekv;
  if (size >= kPayloadHeaderBytes) {
    auto header = DecodePayloadHeader(Bytes(data, kPayloadHeaderBytes));
    if (header.ok()) {
      std::vector<uint8_t> again(kPayloadHeaderBytes);
      EncodePayloadHeader(*header, again);
      TILEKV_CHECK(std::equal(again.begin(), again.end(), data));
    }
  }
  constexpr size_t kPrefixBytes = 8;
  if (size < kPrefixBytes) return 0;
  std::span<const Encoding> known = KnownCodedEncodings();
  auto codec = NewBlockCodec(known[data[0] % known.size()]);
  TILEKV_CHECK(codec.ok());
  auto entry = LoadLe<uint32_t>(data + 1);
  uint64_t length = (data[5] | data[6] << 8 | data[7] << 16) % kBlockBytes + 1;
  std::vector<uint8_t> out(length);
  (*codec)->Decode(Bytes(data + kPrefixBytes, size - kPrefixBytes), entry, out).IgnoreError();
  // What it codes itself comes back.
  Bytes block(data, std::min<size_t>(size, kBlockBytes));
  std::vector<uint8_t> stored(block.size());
  uint32_t made = (*codec)->Encode(block, stored);
  std::vector<uint8_t> back(block.size());
  Bytes used(stored.data(), made & ~kRawBlockBit);
  TILEKV_CHECK((*codec)->Decode(used, made, back).ok());
  TILEKV_CHECK(std::equal(back.begin(), back.end(), block.begin()));
  return 0;
}
