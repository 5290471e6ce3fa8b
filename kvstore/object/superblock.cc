#include "kvstore/object/superblock.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/sizes.h"
#include "kvstore/base/status.h"
#include "kvstore/object/object_hash.h"

namespace tilekv {
namespace {

constexpr std::string_view kFormatKey = "tilekv-store";
constexpr uint64_t kFormatVersion = 1;
constexpr std::string_view kCheckKey = "check";
constexpr std::string_view kNoCluster = "none";
constexpr uint64_t kMaxSuperblockBytes = 64 * kKiB;

std::string PathOf(const std::string& directory) { return directory + "/SUPERBLOCK"; }

absl::Status Damaged(std::string_view what) {
  return MakeError(Reason::kDataLoss, fmt::format("superblock: {}", what));
}

std::string CheckOf(std::string_view text) { return HexEncode(Blake3(AsBytes(text))); }

// The value of the first line with this key.
std::optional<std::string_view> Find(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.size() > key.size() && line.substr(0, key.size()) == key && line[key.size()] == ' ') {
      return line.substr(key.size() + 1);
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> FindNumber(std::string_view text, std::string_view key) {
  std::optional<std::string_view> value = Find(text, key);
  uint64_t number = 0;
  if (!value.has_value()) return std::nullopt;
  auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  if (error != std::errc() || end != value->data() + value->size()) return std::nullopt;
  return number;
}

}  // namespace

std::string EncodeSuperblock(const Superblock& superblock) {
  std::string text = fmt::format(
      "{} {}\n"
      "store_uuid {}\n"
      "cluster_uuid {}\n"
      "domain 0\n"
      "hash blake3\n"
      "max_object_bytes {}\n",
      kFormatKey, kFormatVersion, superblock.store_uuid,
      superblock.cluster_uuid.empty() ? kNoCluster : superblock.cluster_uuid,
      superblock.max_object_bytes);
  return text + fmt::format("{} {}\n", kCheckKey, CheckOf(text));
}

absl::StatusOr<Superblock> DecodeSuperblock(std::string_view text) {
  std::optional<uint64_t> version = FindNumber(text, kFormatKey);
  if (!version.has_value()) return Damaged("it names no format");
  // Before the check, which a later format may make in another way.
  if (*version != kFormatVersion) {
    return MakeError(
        Reason::kStoreMismatch,
        fmt::format("the store has format {}; this program knows format {}: use a later TileKV",
                    *version, kFormatVersion));
  }
  size_t last = text.rfind(fmt::format("\n{} ", kCheckKey));
  if (last == std::string_view::npos) return Damaged("its check is missing");
  std::string_view body = text.substr(0, last + 1);
  if (Find(text.substr(last + 1), kCheckKey) != CheckOf(body)) {
    return Damaged("its check does not fit its text");
  }
  if (Find(body, "hash") != "blake3") {
    return MakeError(Reason::kStoreMismatch,
                     fmt::format("the store hashes with '{}', this program with 'blake3'",
                                 Printable(Find(body, "hash").value_or(""))));
  }
  Superblock superblock;
  superblock.store_uuid = Find(body, "store_uuid").value_or("");
  superblock.max_object_bytes = FindNumber(body, "max_object_bytes").value_or(0);
  std::string raw;
  if (superblock.store_uuid.size() != 32 || !HexDecode(superblock.store_uuid, raw) ||
      superblock.max_object_bytes == 0) {
    return Damaged("it lacks a uuid or a limit");
  }
  const std::string_view cluster = Find(body, "cluster_uuid").value_or(kNoCluster);
  if (cluster != kNoCluster) superblock.cluster_uuid = cluster;
  return superblock;
}

absl::StatusOr<std::optional<Superblock>> LoadSuperblock(FileSystem& fs,
                                                         const std::string& directory) {
  auto text = ReadFile(fs, PathOf(directory), kMaxSuperblockBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  auto superblock = DecodeSuperblock(*text);
  if (!superblock.ok()) {
    return WithContext(superblock.status(), fmt::format("'{}'", Printable(directory)));
  }
  return *superblock;
}

absl::Status CheckStoreDirectory(FileSystem& fs, const std::string& path) {
  if (path.empty()) {
    return MakeError(Reason::kInvalidArgument, "the name of the store's directory is empty");
  }
  absl::StatusOr<FileInfo> info = fs.Stat(path);
  if (!info.ok() || info->kind == FileInfo::Kind::kDirectory) return absl::OkStatus();
  return MakeError(Reason::kInvalidArgument,
                   fmt::format("'{}' is a file; a store is a directory", Printable(path)));
}

absl::Status NoStoreIn(const std::string& directory) {
  return MakeError(Reason::kNotFound,
                   fmt::format("there is no store in '{}'; a command that writes makes one, or "
                               "'tilekv store init'",
                               Printable(directory)));
}

absl::Status CheckMayBecomeStore(FileSystem& fs, const std::string& directory) {
  constexpr std::array kBeginnings = {"LOCK", "SUPERBLOCK.tmp", "lost+found"};
  TILEKV_ASSIGN_OR_RETURN(bool exists, fs.Exists(directory));
  if (!exists) return absl::OkStatus();
  TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(directory));
  for (const std::string& name : names) {
    if (std::find(kBeginnings.begin(), kBeginnings.end(), name) == kBeginnings.end()) {
      // Another process has made the store meanwhile: the lock decides.
      TILEKV_ASSIGN_OR_RETURN(bool is_store, fs.Exists(PathOf(directory)));
      if (is_store) return absl::OkStatus();
      return MakeError(Reason::kStoreMismatch,
                       fmt::format("'{}' is not a TileKV store and not empty (it holds '{}'); name "
                                   "an empty directory",
                                   Printable(directory), Printable(name)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckObjectLimit(uint64_t max_object_bytes) {
  if (max_object_bytes < kLeastMaxObjectBytes || max_object_bytes > kGreatestMaxObjectBytes) {
    return MakeError(Reason::kInvalidArgument,
                     fmt::format("an object limit lies between {} and {}, not {} bytes",
                                 FormatSizeShort(kLeastMaxObjectBytes),
                                 FormatSizeShort(kGreatestMaxObjectBytes), max_object_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<Superblock> CreateSuperblock(FileSystem& fs, const std::string& directory,
                                            uint64_t max_object_bytes,
                                            const std::string& cluster_uuid, Random& random) {
  TILEKV_RETURN_IF_ERROR(CheckObjectLimit(max_object_bytes));
  Superblock superblock{.store_uuid = HexEncode(AsBytes(random.Bytes(16))),
                        .max_object_bytes = max_object_bytes,
                        .cluster_uuid = cluster_uuid};
  TILEKV_RETURN_IF_ERROR(WriteFileAtomically(fs, PathOf(directory), EncodeSuperblock(superblock)));
  return superblock;
}

absl::Status CheckCluster(const Superblock& superblock, const std::string& directory,
                          const std::string& cluster_uuid) {
  if (superblock.cluster_uuid == cluster_uuid) return absl::OkStatus();
  if (superblock.cluster_uuid.empty()) {
    return MakeError(Reason::kStoreMismatch,
                     fmt::format("'{}' is a store by itself, with names of its own: a node of a "
                                 "cluster begins in an empty directory",
                                 Printable(directory)));
  }
  if (cluster_uuid.empty()) {
    return MakeError(Reason::kStoreMismatch,
                     fmt::format("'{}' is the disk of a node of cluster {}, whose names are not "
                                 "here: start tilekv-server on it with --etcd and --cluster, and "
                                 "ask the cluster's nodes",
                                 Printable(directory), superblock.cluster_uuid));
  }
  return MakeError(
      Reason::kStoreMismatch,
      fmt::format("'{}' is the disk of a node of another cluster: {}, not {}. Name the right "
                  "cluster, or an empty directory",
                  Printable(directory), superblock.cluster_uuid, cluster_uuid));
}

absl::Status CheckLimit(const Superblock& superblock, std::optional<uint64_t> asked_bytes) {
  if (!asked_bytes.has_value() || *asked_bytes == superblock.max_object_bytes) {
    return absl::OkStatus();
  }
  return MakeError(
      Reason::kStoreMismatch,
      fmt::format(
          "the store takes objects up to {} bytes ({}), but {} bytes ({}) were asked for; "
          "the limit is set when a store is created. Leave it out, or make a new store with "
          "it and copy into that",
          FormatCount(superblock.max_object_bytes), FormatSizeShort(superblock.max_object_bytes),
          FormatCount(*asked_bytes), FormatSizeShort(*asked_bytes)));
}

}  // namespace tilekv
