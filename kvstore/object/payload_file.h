// The payload file's format (docs/formats.md, section 3), apart from I/O. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/object/encoding.h"
#include "kvstore/object/object_hash.h"
#include "kvstore/object/object_id.h"

namespace tilekv {

inline constexpr uint16_t kPayloadVersion = 1;

struct PayloadHeader {
  Domain domain = kDefaultDomain;
  std::string store_uuid;  // 32 hexadecimal digits
  uint64_t number = 0;
  ObjectRef ref;
  Encoding encoding;
  uint64_t stored_length = 0;

  friend bool operator==(const PayloadHeader&, const PayloadHeader&) = default;
};

// Where things lie. The stored bytes begin at kPayloadHeaderBytes.
struct PayloadLayout {
  uint64_t leaf_table_offset = 0;
  uint64_t block_table_offset = 0;
  uint64_t tables_end = 0;
  uint64_t file_length = 0;  // a multiple of kDirectIoAlignBytes
};
PayloadLayout LayoutOf(uint64_t length, uint64_t stored_length, const Encoding& encoding);

// Fills `out`, kPayloadHeaderBytes long.
void EncodePayloadHeader(const PayloadHeader& header, MutableBytes out);
// DATA_LOSS where it is none or damaged; STORE_MISMATCH for a later version.
absl::StatusOr<PayloadHeader> DecodePayloadHeader(Bytes header);

}  // namespace tilekv
