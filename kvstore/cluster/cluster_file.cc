#include "kvstore/cluster/cluster_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/bytes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

constexpr size_t kFileBlockBytes = 4'096;
// Written in turn: a write that is torn leaves the one before.
constexpr size_t kSlots = 2;
constexpr size_t kHeartbeatBlock = kSlots;
constexpr size_t kBlocks = kSlots + 1;
constexpr std::string_view kFirstLine = "tilekv-cluster 1\n";
constexpr std::string_view kCheckKey = "check ";

std::string CheckOf(std::string_view text) { return HexEncode(Blake3(AsBytes(text))); }

struct Slot {
  uint64_t write = 0;
  SeenMap seen;
};

std::string EncodeSlot(const Slot& slot) {
  std::string text =
      fmt::format("{}write {}\nline_id {}\nmap_version {}\nmap_hash {}\n", kFirstLine, slot.write,
                  slot.seen.line_id, slot.seen.version.value, slot.seen.hash);
  return text + fmt::format("{}{}\n", kCheckKey, CheckOf(text));
}

// The rest of the next line, which has to begin with this key.
std::optional<std::string_view> TakeLine(std::string_view& text, std::string_view key) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos || text.substr(0, key.size()) != key) return std::nullopt;
  std::string_view value = text.substr(key.size(), end - key.size());
  text.remove_prefix(end + 1);
  return value;
}

std::optional<uint64_t> Number(std::optional<std::string_view> text) {
  uint64_t number = 0;
  if (!text.has_value()) return std::nullopt;
  const char* end = text->data() + text->size();
  auto [at, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

std::optional<Slot> DecodeSlot(std::string_view block) {
  const size_t check_at = block.find(fmt::format("\n{}", kCheckKey));
  if (check_at == std::string_view::npos) return std::nullopt;
  const std::string_view body = block.substr(0, check_at + 1);
  std::string_view rest = block.substr(check_at + 1);
  if (TakeLine(rest, kCheckKey) != CheckOf(body)) return std::nullopt;
  std::string_view text = body;
  if (text.substr(0, kFirstLine.size()) != kFirstLine) return std::nullopt;
  text.remove_prefix(kFirstLine.size());
  const auto write = Number(TakeLine(text, "write "));
  const auto line_id = TakeLine(text, "line_id ");
  const auto version = Number(TakeLine(text, "map_version "));
  const auto hash = TakeLine(text, "map_hash ");
  if (!write || !line_id || !version || !hash) return std::nullopt;
  return Slot{*write, {std::string(*line_id), {*version}, std::string(*hash)}};
}

bool IsZero(std::string_view block) {
  return std::all_of(block.begin(), block.end(), [](char c) { return c == '\0'; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterFile>> ClusterFile::Open(FileSystem& fs,
                                                               const std::string& directory) {
  const std::string path = directory + "/CLUSTER";
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                          fs.Open(path, FileSystem::OpenMode::kReadWrite));
  TILEKV_ASSIGN_OR_RETURN(uint64_t size_bytes, file->Size());
  if (size_bytes < kBlocks * kFileBlockBytes) {
    // All its blocks for good, while there is room. One that is longer than it was has said nothing
    // yet.
    const std::string zeros(kBlocks * kFileBlockBytes - size_bytes, '\0');
    TILEKV_RETURN_IF_ERROR(file->Write(size_bytes, AsBytes(zeros)));
    TILEKV_RETURN_IF_ERROR(file->Sync());
    TILEKV_RETURN_IF_ERROR(fs.SyncDirectory(directory));
  }
  std::unique_ptr<ClusterFile> cluster(new ClusterFile(std::move(file), path));
  TILEKV_RETURN_IF_ERROR(cluster->Load());
  return cluster;
}

absl::Status ClusterFile::Load() {
  std::string content(kSlots * kFileBlockBytes, '\0');
  TILEKV_ASSIGN_OR_RETURN(
      uint64_t read, file_->Read(0, {reinterpret_cast<uint8_t*>(content.data()), content.size()}));
  MutexLock lock(mutex_);
  bool any_zero = read < content.size();
  bool any_good = false;
  for (size_t i = 0; i < kSlots; ++i) {
    const std::string_view block =
        std::string_view(content).substr(i * kFileBlockBytes, kFileBlockBytes);
    any_zero |= IsZero(block);
    const std::optional<Slot> slot = DecodeSlot(block);
    if (!slot.has_value()) continue;
    any_good = true;
    if (slot->write < writes_) continue;
    writes_ = slot->write;
    seen_ = slot->seen;
  }
  // The first write of all may be torn: nothing was done after it.
  if (any_good || any_zero) return absl::OkStatus();
  return MakeError(
      Reason::kDataLoss,
      fmt::format("'{}' is damaged: which map of its cluster the node has acted on is not known. "
                  "Where the catalog was not restored from a backup since, remove the file and "
                  "start again",
                  Printable(path_)));
}

absl::Status ClusterFile::WriteBlock(size_t block, const std::string& text) {
  TILEKV_RETURN_IF_ERROR(failed_);
  std::string bytes = text;
  bytes.resize(kFileBlockBytes, '\0');
  TILEKV_RETURN_IF_ERROR(file_->Write(block * kFileBlockBytes, AsBytes(bytes)));
  absl::Status synced = file_->Sync();
  // What a later sync says of this write is of no worth.
  if (!synced.ok()) failed_ = synced;
  return synced;
}

SeenMap ClusterFile::seen() {
  MutexLock lock(mutex_);
  return seen_;
}

absl::Status ClusterFile::Save(const SeenMap& seen) {
  MutexLock lock(mutex_);
  const Slot slot{writes_ + 1, seen};
  TILEKV_RETURN_IF_ERROR(WriteBlock(slot.write % kSlots, EncodeSlot(slot)));
  writes_ = slot.write;
  seen_ = seen;
  return absl::OkStatus();
}

absl::Status ClusterFile::Beat() {
  MutexLock lock(mutex_);
  return WriteBlock(kHeartbeatBlock, fmt::format("beat {}\n", ++beats_));
}

}  // namespace tilekv
