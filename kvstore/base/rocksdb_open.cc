#include "kvstore/base/rocksdb_open.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/rocksdb_log.h"

namespace tilekv {
namespace {

// Less than this, and the tables made of the logs of an opening might not find room.
constexpr uint64_t kTableRoomBytes = 512 * kMiB;

// Paths, by number: from the oldest to the newest.
rocksdb::Status ListLogs(rocksdb::Env& env, const std::string& path,
                         std::map<uint64_t, std::string>& logs) {
  constexpr std::string_view kEnd = ".log";
  std::vector<std::string> names;
  rocksdb::Status status = env.GetChildren(path, &names);
  // No database yet.
  if (status.IsNotFound() || status.IsPathNotFound()) return rocksdb::Status::OK();
  for (const std::string& name : names) {
    uint64_t number = 0;
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    auto rest = static_cast<size_t>(name.data() + name.size() - end);
    if (error == std::errc() && std::string_view(end, rest) == kEnd) {
      logs[number] = path + "/" + name;
    }
  }
  return status;
}

// None: there is no database yet.
std::optional<std::string> CurrentManifest(rocksdb::Env& env, const std::string& path) {
  std::string name;
  if (!rocksdb::ReadFileToString(&env, path + "/CURRENT", &name).ok()) return std::nullopt;
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return path + "/" + name;
}

// Cuts the file to `bytes`, if given, and syncs it.
rocksdb::Status SyncFile(rocksdb::Env& env, const std::string& path,
                         std::optional<uint64_t> bytes) {
  rocksdb::EnvOptions options;
  options.use_mmap_writes = false;  // could not be cut
  std::unique_ptr<rocksdb::WritableFile> file;
  rocksdb::Status status = env.ReopenWritableFile(path, &file, options);
  if (status.ok() && bytes.has_value()) status = file->Truncate(*bytes);
  if (status.ok()) status = file->Sync();
  if (status.ok()) status = file->Close();
  return status;
}

rocksdb::Status SyncWhatIsThere(rocksdb::Env& env, const std::string& path) {
  std::map<uint64_t, std::string> logs;
  rocksdb::Status status = ListLogs(env, path, logs);
  std::optional<std::string> manifest = CurrentManifest(env, path);
  if (manifest.has_value() && env.FileExists(*manifest).ok() && status.ok()) {
    status = SyncFile(env, *manifest, std::nullopt);
  }
  for (const auto& [number, log] : logs) {
    if (status.ok()) status = SyncFile(env, log, std::nullopt);
  }
  return status;
}

struct TornFile {
  std::string path;
  uint64_t whole_bytes = 0;
};

// The manifest, if it is torn. Its records are synced before anything rests on them; but an older
// one that is damaged is worse than a write that is missing. So its end must never have been
// written: zeros, of which a flipped bit leaves none.
std::optional<TornFile> TornManifest(rocksdb::Env& env, const std::string& path) {
  constexpr uint64_t kLeastZeros = 4;
  std::optional<std::string> manifest = CurrentManifest(env, path);
  std::string content;
  if (!manifest.has_value() || !rocksdb::ReadFileToString(&env, *manifest, &content).ok()) {
    return std::nullopt;
  }
  LogState state = ReadLogState(AsBytes(content));
  uint64_t written = content.find_last_not_of('\0') + 1;
  bool torn = state.damage == LogDamage::kTornEnd && state.whole_bytes > 0 &&
              content.size() - std::max(written, state.whole_bytes) >= kLeastZeros;
  if (!torn) return std::nullopt;
  return TornFile{*manifest, state.whole_bytes};
}

// The newest log, if it is torn: only its last write can be in progress. Older ones were synced
// before it was made.
std::optional<TornFile> TornLog(rocksdb::Env& env, const std::string& path) {
  std::map<uint64_t, std::string> logs;
  std::string content;
  if (!ListLogs(env, path, logs).ok() || logs.empty()) return std::nullopt;
  const std::string& newest = logs.rbegin()->second;
  if (!rocksdb::ReadFileToString(&env, newest, &content).ok()) return std::nullopt;
  LogState state = ReadLogState(AsBytes(content));
  if (state.damage != LogDamage::kTornEnd) return std::nullopt;
  return TornFile{newest, state.whole_bytes};
}

// Durably, before the log is cut.
rocksdb::Status KeepDropped(rocksdb::Env& env, const std::string& path, uint64_t log,
                            const rocksdb::Slice& bytes) {
  rocksdb::Status status = rocksdb::WriteStringToFile(
      &env, bytes, fmt::format("{}/{}{}", path, kDroppedPrefix, log), /*should_sync=*/true);
  std::unique_ptr<rocksdb::Directory> directory;
  if (status.ok()) status = env.NewDirectory(path, &directory);
  if (status.ok()) status = directory->Fsync();
  return status;
}

// Cuts off the end of the newest log if it is torn. RocksDB itself would pass over one that is cut
// short, and over a last record whose length is damaged, without a word.
rocksdb::Status MendLog(rocksdb::Env& env, const std::string& path, std::string& dropped) {
  std::map<uint64_t, std::string> logs;
  std::string content;
  rocksdb::Status status = ListLogs(env, path, logs);
  if (!status.ok() || logs.empty()) return status;
  const auto& [number, log] = *logs.rbegin();
  status = rocksdb::ReadFileToString(&env, log, &content);
  if (!status.ok()) return status;
  LogState state = ReadLogState(AsBytes(content));
  if (state.damage == LogDamage::kNone) return status;
  if (state.damage == LogDamage::kDamaged) {
    std::string turned;
    if (state.turned_byte.has_value()) {
      turned = fmt::format(": one bit has turned in its byte {}, and nothing else is wrong",
                           *state.turned_byte);
    }
    return rocksdb::Status::Corruption(
        log,
        fmt::format("a record behind its first {} bytes is damaged{}", state.whole_bytes, turned));
  }
  const uint64_t bytes = content.size() - state.whole_bytes;
  if (state.in_doubt) {
    status = KeepDropped(env, path, number, {content.data() + state.whole_bytes, bytes});
  }
  if (status.ok()) status = SyncFile(env, log, state.whole_bytes);
  if (!status.ok()) return status;
  dropped =
      fmt::format("the last write before the end, of {} bytes in {}, is left out: {}", bytes,
                  log.substr(log.rfind('/') + 1),
                  state.in_doubt ? "it is torn, and was then never acknowledged, or it is damaged"
                                 : "it is torn, and was never acknowledged");
  return status;
}

// A file of which only the first bytes are seen.
class ShortenedFile : public rocksdb::SequentialFile {
 public:
  ShortenedFile(std::unique_ptr<rocksdb::SequentialFile> base, uint64_t bytes)
      : base_(std::move(base)), left_bytes_(bytes) {}
  rocksdb::Status Read(size_t count, rocksdb::Slice* result, char* scratch) override {
    rocksdb::Status status = base_->Read(std::min<uint64_t>(count, left_bytes_), result, scratch);
    if (status.ok()) left_bytes_ -= result->size();
    return status;
  }
  rocksdb::Status Skip(uint64_t count) override {
    uint64_t skipped = std::min(count, left_bytes_);
    left_bytes_ -= skipped;
    return base_->Skip(skipped);
  }

 private:
  const std::unique_ptr<rocksdb::SequentialFile> base_;
  uint64_t left_bytes_;
};

class ViewWithoutTornEnds : public rocksdb::EnvWrapper {
 public:
  explicit ViewWithoutTornEnds(rocksdb::Env* env) : rocksdb::EnvWrapper(env) {}
  const char* Name() const override { return "ViewWithoutTornEnds"; }
  // Before the database is opened.
  void Hide(const TornFile& torn) { whole_bytes_[torn.path] = torn.whole_bytes; }

  rocksdb::Status NewSequentialFile(const std::string& path,
                                    std::unique_ptr<rocksdb::SequentialFile>* file,
                                    const rocksdb::EnvOptions& options) override {
    rocksdb::Status status = target()->NewSequentialFile(path, file, options);
    auto torn = whole_bytes_.find(path);
    if (status.ok() && torn != whole_bytes_.end()) {
      *file = std::make_unique<ShortenedFile>(std::move(*file), torn->second);
    }
    return status;
  }

 private:
  std::map<std::string, uint64_t> whole_bytes_;  // by path
};

}  // namespace

rocksdb::Status OpenRocksDbToWrite(const rocksdb::Options& asked, const std::string& path,
                                   const OpenRocksDb& open, std::string& dropped) {
  rocksdb::Options options = asked;
  uint64_t free_bytes = 0;
  bool is_short = options.env->GetFreeSpace(path, &free_bytes).ok() && free_bytes < kTableRoomBytes;
  options.avoid_flush_during_recovery = is_short;
  rocksdb::Status status = SyncWhatIsThere(*options.env, path);
  if (status.ok()) status = MendLog(*options.env, path, dropped);
  if (!status.ok()) return status;
  status = open(options);
  if (!status.IsCorruption()) return status;
  std::optional<TornFile> torn = TornManifest(*options.env, path);
  if (!torn.has_value()) return status;
  rocksdb::Status cut = SyncFile(*options.env, torn->path, torn->whole_bytes);
  return cut.ok() ? open(options) : cut;
}

rocksdb::Status OpenRocksDbToRead(const rocksdb::Options& options, const std::string& path,
                                  const OpenRocksDb& open, std::unique_ptr<rocksdb::Env>& view) {
  rocksdb::Status status = open(options);
  if (!status.IsCorruption()) return status;
  auto hiding = std::make_unique<ViewWithoutTornEnds>(options.env);
  bool hides = false;
  for (auto find : {&TornManifest, &TornLog}) {
    std::optional<TornFile> torn = find(*options.env, path);
    if (torn.has_value()) hiding->Hide(*torn);
    hides |= torn.has_value();
  }
  // A writer that opens at the same time may have cut it off since.
  if (!hides) return open(options);
  rocksdb::Options through_view = options;
  through_view.env = hiding.get();
  view = std::move(hiding);
  return open(through_view);
}

}  // namespace tilekv
