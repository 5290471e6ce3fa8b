#include "kvstore/object/payload_file.h"

#include <cstring>

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr char kMagic[] = "TKVP";
constexpr uint64_t kHashedBytes = kPayloadHeaderBytes - sizeof(LeafHash);

absl::Status Damaged(std::string_view what) {
  return MakeError(Reason::kDataLoss, fmt::format("payload header: {}", what));
}

}  // namespace

PayloadLayout LayoutOf(uint64_t length, uint64_t stored_length, const Encoding& encoding) {
  PayloadLayout layout;
  layout.leaf_table_offset = kPayloadHeaderBytes + stored_length;
  layout.block_table_offset = layout.leaf_table_offset + LeafCount(length) * sizeof(LeafHash);
  layout.tables_end = layout.block_table_offset;
  if (encoding.kind != EncodingKind::kNone) {
    layout.tables_end += BlockCount(length) * sizeof(uint32_t);
  }
  layout.file_length = RoundUp(layout.tables_end, kDirectIoAlignBytes);
  return layout;
}

void EncodePayloadHeader(const PayloadHeader& header, MutableBytes out) {
  std::string uuid;
  TILEKV_CHECK(out.size() == kPayloadHeaderBytes && HexDecode(header.store_uuid, uuid) &&
               uuid.size() == 16);
  PayloadLayout layout = LayoutOf(header.ref.length, header.stored_length, header.encoding);
  std::string text(kMagic, 4);
  AppendLe<uint16_t>(text, kPayloadVersion);
  AppendLe<uint8_t>(text, header.ref.level);
  AppendLe<uint8_t>(text, static_cast<uint8_t>(header.encoding.kind));
  AppendLe<uint8_t>(text, header.encoding.width);
  text.append(3, '\0');
  AppendLe<uint32_t>(text, header.domain);
  text.append(uuid);
  AppendLe<uint64_t>(text, header.number);
  text.append(header.ref.id.view());
  AppendLe<uint64_t>(text, header.ref.length);
  AppendLe<uint64_t>(text, header.stored_length);
  AppendLe<uint64_t>(text, layout.leaf_table_offset);
  AppendLe<uint64_t>(text, layout.block_table_offset);
  AppendLe<uint64_t>(text, layout.file_length);
  text.resize(kHashedBytes, '\0');
  std::memcpy(out.data(), text.data(), text.size());
  LeafHash hash = Blake3(AsBytes(text));
  std::memcpy(out.data() + kHashedBytes, hash.data(), hash.size());
}

absl::StatusOr<PayloadHeader> DecodePayloadHeader(Bytes bytes) {
  if (bytes.size() != kPayloadHeaderBytes) return Damaged("it is not whole");
  ByteReader in(bytes);
  if (AsText(in.Take(4)) != kMagic) return Damaged("it does not begin with TKVP");
  uint16_t version = in.Read<uint16_t>();
  if (version != kPayloadVersion) {
    return MakeError(Reason::kStoreMismatch,
                     fmt::format("payload header: version {} is not known", version));
  }
  LeafHash hash = Blake3(bytes.first(kHashedBytes));
  if (std::memcmp(hash.data(), bytes.data() + kHashedBytes, hash.size()) != 0) {
    return Damaged("its hash does not fit");
  }
  PayloadHeader header;
  header.ref.level = in.Read<uint8_t>();
  header.encoding.kind = static_cast<EncodingKind>(in.Read<uint8_t>());
  header.encoding.width = in.Read<uint8_t>();
  in.Take(3);
  header.domain = in.Read<uint32_t>();
  header.store_uuid = HexEncode(in.Take(16));
  header.number = in.Read<uint64_t>();
  Bytes id = in.Take(header.ref.id.bytes.size());
  std::memcpy(header.ref.id.bytes.data(), id.data(), id.size());
  header.ref.length = in.Read<uint64_t>();
  header.stored_length = in.Read<uint64_t>();
  // Far above any limit, far below where offsets would wrap.
  if (header.ref.length > kGreatestMaxObjectBytes ||
      header.stored_length > 2 * kGreatestMaxObjectBytes) {
    return Damaged("its lengths are above every limit");
  }
  PayloadLayout layout = LayoutOf(header.ref.length, header.stored_length, header.encoding);
  if (in.Read<uint64_t>() != layout.leaf_table_offset ||
      in.Read<uint64_t>() != layout.block_table_offset ||
      in.Read<uint64_t>() != layout.file_length) {
    return Damaged("its offsets do not follow from its lengths");
  }
  return header;
}

}  // namespace tilekv
