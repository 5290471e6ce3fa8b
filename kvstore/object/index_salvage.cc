#include "kvstore/object/index_salvage.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/rocksdb_log.h"
#include "kvstore/base/rocksdb_null_logger.h"
#include "kvstore/object/index_rows.h"
#include "kvstore/object/small_content.h"

namespace tilekv {
namespace {

constexpr size_t kDomainBytes = sizeof(Domain);
constexpr size_t kContentKeyBytes = kDomainBytes + sizeof(ObjectId::bytes);
// With the table of their one block.
constexpr size_t kMaxValueBytes = kInlineContentBytes + sizeof(uint32_t);
constexpr size_t kKeysBefore = 4;

std::string_view Text(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// The parts of an entry of a table's data block: how many bytes of its key are those of the entry
// before, the others, the value.
struct TableEntry {
  uint32_t shared = 0;
  std::string_view rest_of_key;
  std::string_view value;
};

bool TakeVarint(std::string_view& in, uint32_t& value) {
  value = 0;
  for (int shift = 0; shift <= 28 && !in.empty(); shift += 7) {
    uint8_t byte = static_cast<uint8_t>(in.front());
    in.remove_prefix(1);
    value |= static_cast<uint32_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

// What begins here, if that may be a content's entry.
std::optional<TableEntry> EntryAt(std::string_view table) {
  TableEntry entry;
  uint32_t rest_bytes = 0, value_bytes = 0;
  bool read = TakeVarint(table, entry.shared) && TakeVarint(table, rest_bytes) &&
              TakeVarint(table, value_bytes);
  // The key ends with its sequence number and, in the lowest byte, what was done: 1, put.
  constexpr size_t kTrailerBytes = 8;
  bool fits = read && entry.shared <= kContentKeyBytes && rest_bytes >= kTrailerBytes &&
              entry.shared + rest_bytes == kContentKeyBytes + kTrailerBytes &&
              value_bytes <= kMaxValueBytes && table.size() >= rest_bytes &&
              table.size() - rest_bytes >= value_bytes;
  if (!fits || table[rest_bytes - kTrailerBytes] != 1) return std::nullopt;
  entry.rest_of_key = table.substr(0, rest_bytes - kTrailerBytes);
  entry.value = table.substr(rest_bytes, value_bytes);
  return entry;
}

class Salvage {
 public:
  Salvage(rocksdb::Env* env, const SmallContentFound& visit)
      : env_(env != nullptr ? env : rocksdb::Env::Default()), visit_(visit) {}

  absl::StatusOr<SalvageReport> Run(const std::string& path) {
    std::vector<std::string> names;
    rocksdb::Status listed = env_->GetChildren(path, &names);
    if (!listed.ok()) Problem(path, listed.ToString());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      if (EndsWith(name, ".sst")) Table(path + "/" + name);
      if (EndsWith(name, ".log")) Log(path + "/" + name);
      if (!failed_.ok()) return failed_;
    }
    return std::move(report_);
  }

 private:
  class RecordReader : public rocksdb::WriteBatch::Handler {
   public:
    explicit RecordReader(Salvage* salvage) : salvage_(salvage) {}
    rocksdb::Status PutCF(uint32_t /*family*/, const rocksdb::Slice& key,
                          const rocksdb::Slice& value) override {
      salvage_->Numbers(Text(key), Text(value));
      salvage_->Content(Text(key), Text(value));
      return rocksdb::Status::OK();
    }
    rocksdb::Status DeleteCF(uint32_t, const rocksdb::Slice&) override {
      return rocksdb::Status::OK();
    }

   private:
    Salvage* const salvage_;
  };

  void Problem(const std::string& path, std::string_view what) {
    report_.problems.push_back(fmt::format("{}: {}", path.substr(path.rfind('/') + 1), what));
  }

  void Log(const std::string& path) {
    std::string content;
    rocksdb::Status read = rocksdb::ReadFileToString(env_, path, &content);
    if (!read.ok()) return Problem(path, read.ToString());
    if (ReadLogState(AsBytes(content)).damage != LogDamage::kNone) {
      Problem(path, "a record is damaged");
    }
    RecordReader reader(this);
    VisitWholeRecords(AsBytes(content), [&](std::string record) {
      // One that is no batch gives what came before.
      if (failed_.ok())
        rocksdb::WriteBatch(std::move(record)).Iterate(&reader).PermitUncheckedError();
    });
  }

  void Table(const std::string& path) {
    rocksdb::Options options;
    options.env = env_;
    options.info_log = std::make_shared<RocksDbNullLogger>();
    rocksdb::SstFileReader reader(options);
    rocksdb::Status status = reader.Open(path);
    bool has_rows = status.ok() && reader.GetTableProperties()->column_family_name ==
                                       rocksdb::kDefaultColumnFamilyName;
    if (has_rows) {
      status = TableNumbers(reader);
    } else {
      if (status.ok()) status = reader.VerifyChecksum();
      if (status.ok()) status = Walk(reader);
    }
    if (status.ok()) return;
    Problem(path, status.ToString());
    if (!has_rows) Comb(path);
  }

  // What cannot be read here tells of no number: the payload files then do, alone.
  rocksdb::Status TableNumbers(rocksdb::SstFileReader& reader) {
    std::unique_ptr<rocksdb::Iterator> it(reader.NewIterator({}));
    it->Seek(rocksdb::Slice(kNumbersKey.data(), kNumbersKey.size()));
    if (it->Valid()) Numbers(Text(it->key()), Text(it->value()));
    rocksdb::Status read = it->status();
    // The highest that a row names.
    std::string last = NumberKey(std::numeric_limits<uint64_t>::max());
    it->SeekForPrev(last);
    if (it->Valid() && it->key().size() == last.size() && it->key()[0] == last[0]) {
      uint64_t number = LoadBe64(AsBytes(Text(it->key())).data() + 1);
      report_.numbers = std::max(report_.numbers, number + 1);
    }
    return read.ok() ? it->status() : read;
  }

  // A table without damage, unless the disk fails meanwhile.
  rocksdb::Status Walk(rocksdb::SstFileReader& reader) {
    std::unique_ptr<rocksdb::Iterator> it(reader.NewIterator({}));
    for (it->SeekToFirst(); it->Valid() && failed_.ok(); it->Next()) {
      Content(Text(it->key()), Text(it->value()));
    }
    return it->status();
  }

  // A damaged one, whose blocks RocksDB would not give, or would end the process over: every place
  // at which a content's entry may begin is tried, and the id decides.
  void Comb(const std::string& path) {
    std::string table;
    rocksdb::Status read = rocksdb::ReadFileToString(env_, path, &table);
    if (!read.ok()) return Problem(path, read.ToString());
    std::deque<std::string> keys_before(1, std::string(kContentKeyBytes, '\0'));
    for (size_t at = 0; at < table.size() && failed_.ok();) {
      std::optional<TableEntry> entry = EntryAt(std::string_view(table).substr(at));
      ++at;
      if (!entry.has_value()) continue;
      // The entry before may be damaged, and others were none.
      std::string likely;
      for (const std::string& before : keys_before) {
        std::string key = before.substr(0, entry->shared);
        key += entry->rest_of_key;
        bool found = Content(key, entry->value);
        if (found || likely.empty()) likely = std::move(key);
        if (!found) continue;
        at = static_cast<size_t>(entry->value.end() - table.data());
        break;
      }
      keys_before.push_front(std::move(likely));
      if (keys_before.size() > kKeysBefore) keys_before.pop_back();
    }
  }

  void Numbers(std::string_view key, std::string_view value) {
    if (key != kNumbersKey || value.size() != sizeof(uint64_t)) return;
    report_.numbers = std::max(report_.numbers, LoadLe<uint64_t>(AsBytes(value).data()));
  }

  // Whether this is one.
  bool Content(std::string_view key, std::string_view value) {
    if (key.size() != kContentKeyBytes || !failed_.ok()) return false;
    absl::StatusOr<ObjectId> id = ObjectId::FromBytes(key.substr(kDomainBytes));
    std::string held(value);
    std::optional<ObjectRow> row = RecognizeSmallContent(*id, held);
    if (row.has_value()) failed_ = visit_(LoadBe32(key), *row, held);
    return row.has_value();
  }

  static Domain LoadBe32(std::string_view key) {
    Domain domain = 0;
    for (size_t i = 0; i < kDomainBytes; ++i) domain = domain << 8 | static_cast<uint8_t>(key[i]);
    return domain;
  }

  rocksdb::Env* const env_;
  const SmallContentFound& visit_;
  absl::Status failed_;  // visit's
  SalvageReport report_;
};

}  // namespace

absl::StatusOr<SalvageReport> SalvageIndex(const std::string& path, rocksdb::Env* env,
                                           const SmallContentFound& visit) {
  return Salvage(env, visit).Run(path);
}

}  // namespace tilekv
