#include "kvstore/base/rocksdb_log.h"

#include <algorithm>
#include <array>
#include <bit>
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

const std::array<uint32_t, 256>& CrcTable() {
  static const std::array<uint32_t, 256> kTable = MakeCrcTable();
  return kTable;
}

uint32_t Crc(Bytes bytes) {
  uint32_t crc = ~0u;
  for (uint8_t byte : bytes) crc = (crc >> 8) ^ CrcTable()[(crc ^ byte) & 0xff];
  return ~crc;
}

constexpr uint32_t kMaskDelta = 0xa282ead8u;
uint32_t Mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + kMaskDelta; }
uint32_t Unmask(uint32_t masked) {
  uint32_t turned = masked - kMaskDelta;
  return (turned >> 17) | (turned << 15);
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
  if (Mask(Crc(log.subspan(at + 6, end - at - 6))) != LoadLe<uint32_t>(log.data() + at)) {
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

// The byte with the one bit that differs where these bytes had this checksum once.
std::optional<uint64_t> TurnedByte(Bytes bytes, uint32_t crc) {
  const uint32_t difference = Crc(bytes) ^ crc;
  std::array<uint32_t, 8> of_bit{};  // what each bit of the byte changes in the checksum
  for (uint64_t i = bytes.size(); i-- > 0;) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      uint32_t& change = of_bit[bit];
      change =
          i + 1 == bytes.size() ? CrcTable()[1u << bit] : (change >> 8) ^ CrcTable()[change & 0xff];
      if (change == difference) return i;
    }
  }
  return std::nullopt;
}

// Of the fragment at `at`, which is not whole: where in the log a bit has turned, if one alone
// makes it whole.
std::optional<uint64_t> TurnedBit(Bytes log, uint64_t at) {
  uint64_t block_end = std::min<uint64_t>(log.size(), (at / kBlockBytes + 1) * kBlockBytes);
  if (at + kHeaderBytes > block_end) return std::nullopt;
  uint32_t stored = LoadLe<uint32_t>(log.data() + at);
  uint16_t length = LoadLe<uint16_t>(log.data() + at + 4);
  const uint64_t begin = at + kHeaderBytes - 1;  // of what the checksum is of: type and bytes
  auto bytes_of = [&](uint64_t of_length) { return log.subspan(begin, 1 + of_length); };
  for (uint32_t bit = 0; bit < 16; ++bit) {
    uint64_t other = length ^ (1u << bit);
    if (begin + 1 + other > block_end) continue;
    if (Mask(Crc(bytes_of(other))) == stored) return at + 4 + bit / 8;
  }
  if (begin + 1 + length > block_end) return std::nullopt;
  uint32_t in_checksum = Mask(Crc(bytes_of(length))) ^ stored;
  if (in_checksum == 0) return at;
  if (std::has_single_bit(in_checksum)) {
    return at + static_cast<uint64_t>(std::countr_zero(in_checksum)) / 8;
  }
  std::optional<uint64_t> turned = TurnedByte(bytes_of(length), Unmask(stored));
  if (!turned.has_value()) return std::nullopt;
  return begin + *turned;
}

// Bytes are written to the disk by the page: one of zeros, or zeros from here to the end of one.
bool HasUnwrittenPage(Bytes log, uint64_t from) {
  constexpr uint64_t kPageBytes = 4'096;
  uint64_t begin = from;
  while (begin + kHeaderBytes <= log.size()) {
    uint64_t end = (begin / kPageBytes + 1) * kPageBytes;
    if (end > log.size()) return false;
    Bytes page = log.subspan(begin, end - begin);
    bool enough = page.size() >= kHeaderBytes;
    if (enough && std::all_of(page.begin(), page.end(), [](uint8_t byte) { return byte == 0; })) {
      return true;
    }
    begin = end;
  }
  return false;
}

// Whether the fragment is all there but for its length: one up to the end of the log makes it
// whole.
bool IsWholeButForItsLength(Bytes log, uint64_t at) {
  uint64_t block_end = (at / kBlockBytes + 1) * kBlockBytes;
  if (at + kHeaderBytes > log.size() || log.size() > block_end) return false;
  return Mask(Crc(log.subspan(at + kHeaderBytes - 1))) == LoadLe<uint32_t>(log.data() + at);
}

// Of the last record, which has no whole fragment at `at`.
LogState LastRecordState(Bytes log, uint64_t at, uint64_t whole_bytes) {
  // What a record ends in, a number or a content, may end in zeros. Missing bytes begin where a
  // write to the disk does; where nothing of the record is there, they begin with it.
  constexpr uint64_t kSectorBytes = 512;
  constexpr uint64_t kSurelyUnwrittenBytes = 16;
  uint64_t written = log.size();
  while (written > at && log[written - 1] == 0) --written;
  const uint64_t zeros = log.size() - written;
  const uint64_t block_end = (at / kBlockBytes + 1) * kBlockBytes;
  bool cut_short = log.size() - at < kHeaderBytes;
  if (!cut_short) {
    uint64_t end = at + kHeaderBytes + LoadLe<uint16_t>(log.data() + at + 4);
    cut_short = end > log.size() && end <= block_end;
  }
  bool torn = cut_short || zeros > 0 || HasUnwrittenPage(log, at);
  std::optional<uint64_t> turned = TurnedBit(log, at);
  if (!torn || (turned.has_value() && *turned < written) || IsWholeButForItsLength(log, at)) {
    return {LogDamage::kDamaged, whole_bytes, /*in_doubt=*/false, turned};
  }
  const bool unwritten =
      zeros >= kSurelyUnwrittenBytes && (written == at || written % kSectorBytes == 0);
  return {LogDamage::kTornEnd, whole_bytes, !cut_short && !unwritten};
}

}  // namespace

LogState ReadLogState(Bytes log) {
  uint64_t at = 0;
  uint64_t whole_bytes = 0;  // up to the last end of a record
  bool has_begun = false;    // a record behind that
  while (at < log.size()) {
    uint64_t left_in_block = kBlockBytes - at % kBlockBytes;
    if (left_in_block < kHeaderBytes) {
      at += left_in_block;
      continue;
    }
    std::optional<Fragment> fragment = FragmentAt(log, at);
    if (!fragment.has_value()) {
      if (RecordBeginsAfter(log, at + 1)) return {LogDamage::kDamaged, whole_bytes};
      return LastRecordState(log, at, whole_bytes);
    }
    at = fragment->end;
    has_begun = fragment->type != kFull && fragment->type != kLast;
    if (!has_begun) whole_bytes = at;
  }
  return {has_begun ? LogDamage::kTornEnd : LogDamage::kNone, whole_bytes};
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
    visit(*std::exchange(record, std::nullopt));
  }
}

}  // namespace tilekv
