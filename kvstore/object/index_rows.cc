#include "kvstore/object/index_rows.h"

#include "fmt/format.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr uint8_t kRowVersion = 1;
constexpr size_t kRowBytes = 48;

void AppendDomain(std::string& out, Domain domain) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(domain >> shift));
}

}  // namespace

std::string RowKeyPrefix(Domain domain) {
  std::string key(1, kRowKeyTag);
  AppendDomain(key, domain);
  return key;
}

std::string RowKey(Domain domain, const ObjectId& id) {
  std::string key = RowKeyPrefix(domain);
  key.append(id.view());
  return key;
}

std::string NumberKey(uint64_t number) {
  std::string key = "n";
  AppendBe64(key, number);
  return key;
}

std::string ContentKey(Domain domain, const ObjectId& id) {
  std::string key;
  AppendDomain(key, domain);
  key.append(id.view());
  return key;
}

std::string EncodeRow(const ObjectRow& row) {
  std::string out;
  out.reserve(kRowBytes);
  AppendLe<uint8_t>(out, kRowVersion);
  AppendLe<uint8_t>(out, static_cast<uint8_t>(row.state));
  AppendLe<uint8_t>(out, row.ref.level);
  AppendLe<uint8_t>(out, static_cast<uint8_t>(row.encoding.kind));
  AppendLe<uint8_t>(out, row.encoding.width);
  out.append(3, '\0');
  AppendLe<uint64_t>(out, row.ref.length);
  AppendLe<uint64_t>(out, row.stored_length);
  AppendLe<uint64_t>(out, row.file_number);
  AppendLe<uint64_t>(out, row.touched_rev.value);
  AppendLe<int64_t>(out, row.verified_at_micros);
  return out;
}

absl::StatusOr<ObjectRow> DecodeRow(const ObjectId& id, std::string_view value) {
  ByteReader in(AsBytes(value));
  uint8_t version = in.Read<uint8_t>();
  ObjectRow row;
  row.ref.id = id;
  row.state = static_cast<RowState>(in.Read<uint8_t>());
  row.ref.level = in.Read<uint8_t>();
  row.encoding.kind = static_cast<EncodingKind>(in.Read<uint8_t>());
  row.encoding.width = in.Read<uint8_t>();
  in.Take(3);
  row.ref.length = in.Read<uint64_t>();
  row.stored_length = in.Read<uint64_t>();
  row.file_number = in.Read<uint64_t>();
  row.touched_rev.value = in.Read<uint64_t>();
  row.verified_at_micros = in.Read<int64_t>();
  bool known_state = row.state >= RowState::kGood && row.state <= RowState::kQuarantined;
  if (!in.ok() || !in.empty() || version != kRowVersion || !known_state) {
    return MakeError(Reason::kDataLoss,
                     fmt::format("index: the row of object {} is damaged", id.Short()));
  }
  return row;
}

}  // namespace tilekv
