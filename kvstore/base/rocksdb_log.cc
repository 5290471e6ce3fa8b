#include "kvstore/base/rocksdb_log.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

namespace tilekv {
namespace {

// RocksDB's log format: blocks of 32 KiB, in them fragments of records: u32 masked CRC-32C of type
// and bytes, u16 length, u8 type, bytes. A rest of a block too short for a header is zeros.
constexpr uint64_t kBlockBytes = 32'768;
constexpr uint64_t kHeaderBytes = 7;
constexpr uint8_t kFull = 1, kFirst = 2, kLast = 4;  // 3 stands in the middle

std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    table[byte] = crc;
  }
  return table;
}

uint32_t MaskedCrc(Bytes bytes) {
  static const std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~0u;
  for (uint8_t byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ byte) & 0xff];
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

struct Fragment {
  uint8_t type = 0;
  uint64_t end = 0;
};

// The whole fragment that begins here, if one does.
std::optional<Fragment> FragmentAt(Bytes log, uint64_t at) {
  uint64_t block_end = std::min<uint64_t>(log.size(), (at / kBlockBytes + 1) * kBlockBytes);
  if (at + kHeaderBytes > block_end) return std::nullopt;
  uint8_t type = log[at + 6];
  uint64_t end = at + kHeaderBytes + LoadLe<uint16_t>(log.data() + at + 4);
  if (type < kFull || type > kLast || end > block_end) return std::nullopt;
  if (MaskedCrc(log.subspan(at + 6, end - at - 6)) != LoadLe<uint32_t>(log.data() + at)) {
    return std::nullopt;
  }
  return Fragment{type, end};
}

bool RecordBeginsAfter(Bytes log, uint64_t at) {
  for (; at < log.size(); ++at) {
    std::optional<Fragment> found = FragmentAt(log, at);
    if (found.has_value() && (found->type == kFull || found->type == kFirst)) return true;
  }
  return false;
}

}  // namespace

LogState ReadLogState(Bytes log) {
  uint64_t at = 0;
  uint64_t whole_bytes = 0;  // up to the last end of a record
  while (at < log.size()) {
    uint64_t left_in_block = kBlockBytes - at % kBlockBytes;
    if (left_in_block < kHeaderBytes) {
      at += left_in_block;
      continue;
    }
    std::optional<Fragment> fragment = FragmentAt(log, at);
    if (!fragment.has_value()) {
      return {RecordBeginsAfter(log, at + 1) ? LogDamage::kBeforeARecord : LogDamage::kInLastRecord,
              whole_bytes};
    }
    at = fragment->end;
    if (fragment->type == kFull || fragment->type == kLast) whole_bytes = at;
  }
  return {LogDamage::kNone, whole_bytes};
}

void VisitWholeRecords(Bytes log, const std::function<void(std::string record)>& visit) {
  std::optional<std::string> record;  // that has begun
  for (uint64_t at = 0; at < log.size();) {
    uint64_t left_in_block = kBlockBytes - at % kBlockBytes;
    if (left_in_block < kHeaderBytes) {
      at += left_in_block;
      continue;
    }
    std::optional<Fragment> fragment = FragmentAt(log, at);
    if (!fragment.has_value()) {
      record.reset();
      ++at;
      continue;
    }
    Bytes bytes = log.subspan(at + kHeaderBytes, fragment->end - at - kHeaderBytes);
    at = fragment->end;
    if (fragment->type == kFull || fragment->type == kFirst) record.emplace();
    if (!record.has_value()) continue;
    record->append(AsText(bytes));
    if (fragment->type != kFull && fragment->type != kLast) continue;
    visit(*std::move(record));
    record.reset();
  }
}

}  // namespace tilekv
