#include "kvstore/base/rocksdb_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

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

// Of the database, the newest.
std::optional<std::string> NewestLog(rocksdb::Env& env, const std::string& path) {
  constexpr std::string_view kEnd = ".log";
  std::vector<std::string> names;
  if (!env.GetChildren(path, &names).ok()) return std::nullopt;
  uint64_t newest = 0;
  std::optional<std::string> log;
  for (const std::string& name : names) {
    uint64_t number = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    bool is_log =
        error == std::errc() &&
        std::string_view(end, static_cast<size_t>(name.data() + name.size() - end)) == kEnd;
    if (!is_log || number < newest) continue;
    newest = number;
    log = path + "/" + name;
  }
  return log;
}

}  // namespace

namespace {

// Where the log stops being readable, and what that means.
struct FoundDamage {
  LogDamage kind = LogDamage::kNone;
  uint64_t at = 0;
};

FoundDamage FindDamage(Bytes log) {
  uint64_t at = 0;
  while (at < log.size()) {
    uint64_t left_in_block = kBlockBytes - at % kBlockBytes;
    if (left_in_block < kHeaderBytes) {
      at += left_in_block;
      continue;
    }
    std::optional<Fragment> fragment = FragmentAt(log, at);
    if (!fragment.has_value()) {
      return {RecordBeginsAfter(log, at + 1) ? LogDamage::kBeforeARecord : LogDamage::kInLastRecord,
              at};
    }
    at = fragment->end;
  }
  return {};
}

// The list of the database's files is a log too, whose records are synced before anything rests on
// them. One whose end was never written (zeros; a flipped bit leaves none) is cut off there. False:
// that is not what is wrong.
bool CutTornManifest(rocksdb::Env& env, const std::string& path) {
  constexpr uint64_t kLeastZeros = 4;
  std::string name, content;
  if (!rocksdb::ReadFileToString(&env, path + "/CURRENT", &name).ok()) return false;
  if (!name.empty() && name.back() == '\n') name.pop_back();
  const std::string manifest = path + "/" + name;
  if (!rocksdb::ReadFileToString(&env, manifest, &content).ok()) return false;
  FoundDamage damage = FindDamage(AsBytes(content));
  uint64_t written = content.find_last_not_of('\0') + 1;
  bool torn = damage.kind == LogDamage::kInLastRecord && damage.at > 0 &&
              content.size() - std::max(written, damage.at) >= kLeastZeros;
  if (!torn) return false;
  const std::string cut = manifest + ".cut";
  std::unique_ptr<rocksdb::Directory> directory;
  return rocksdb::WriteStringToFile(&env, content.substr(0, damage.at), cut, true).ok() &&
         env.RenameFile(cut, manifest).ok() && env.NewDirectory(path, &directory).ok() &&
         directory->Fsync().ok();
}

}  // namespace

LogDamage FindLogDamage(Bytes log) { return FindDamage(log).kind; }

rocksdb::Status OpenRocksDbAfterLoss(
    const rocksdb::Options& options, const std::string& path,
    const std::function<rocksdb::Status(const rocksdb::Options&)>& open) {
  rocksdb::Status status = open(options);
  if (!status.IsCorruption()) return status;
  if (CutTornManifest(*options.env, path)) {
    status = open(options);
    if (!status.IsCorruption()) return status;
  }
  std::optional<std::string> log = NewestLog(*options.env, path);
  std::string content;
  if (!log.has_value() || !rocksdb::ReadFileToString(options.env, *log, &content).ok() ||
      FindLogDamage(AsBytes(content)) != LogDamage::kInLastRecord) {
    return status;
  }
  // Up to the damage, behind which nothing begins.
  rocksdb::Options up_to_damage = options;
  up_to_damage.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  return open(up_to_damage);
}

}  // namespace tilekv
