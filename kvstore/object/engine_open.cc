// How a directory becomes an open engine. Order: superblock, lock, superblock again (another
// process may have made it), room on the disk, index, then one synced batch that ends the counts of
// a clean end.
#include <unistd.h>

#include "fmt/format.h"
#include "kvstore/base/crash_point.h"
#include "kvstore/base/status.h"
#include "kvstore/object/damage_reports.h"
#include "kvstore/object/engine_core.h"
#include "kvstore/object/index_rows.h"

namespace tilekv {
namespace {

constexpr char kServerAt[] = ", a server at ";

std::string ParentOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string LockOwner(const std::string& server_address) {
  std::string owner = fmt::format("process {}", getpid());
  if (!server_address.empty()) owner += fmt::format("{}{}", kServerAt, server_address);
  return owner;
}

// The store's directory, its entry durable also where it was there: whoever made it may have ended
// before the sync.
absl::Status MakeStoreDirectory(FileSystem& fs, const std::string& path) {
  TILEKV_ASSIGN_OR_RETURN(bool existed, fs.Exists(path));
  TILEKV_RETURN_IF_ERROR(fs.CreateDirectory(path));
  absl::Status synced = fs.SyncDirectory(ParentOf(path));
  // A parent that may not be read is not where this user has made a directory.
  if (existed && GetReason(synced) == Reason::kPermissionDenied) return absl::OkStatus();
  return synced;
}

// Whether the index may be made: never where payload files or a catalog show that there was one.
absl::StatusOr<bool> MayCreateIndex(FileSystem& fs, const std::string& directory) {
  TILEKV_ASSIGN_OR_RETURN(bool has_index, fs.Exists(directory + "/index/CURRENT"));
  if (has_index) return false;
  auto lost = [&](std::string_view what) {
    return MakeError(
        Reason::kDataLoss,
        fmt::format("'{}' holds {} but no index; 'tilekv store fsck --rebuild-index' makes one "
                    "from the payload files",
                    Printable(directory), what));
  };
  // Made after the index.
  TILEKV_ASSIGN_OR_RETURN(bool has_catalog, fs.Exists(directory + "/catalog/CURRENT"));
  if (has_catalog) return lost("a catalog");
  TILEKV_ASSIGN_OR_RETURN(bool has_payload, fs.Exists(directory + "/payload"));
  if (!has_payload) return true;
  TILEKV_ASSIGN_OR_RETURN(auto folders, fs.List(directory + "/payload"));
  if (!folders.empty()) return lost("payload files");
  return true;
}

// A lock that is held names who holds it; a server can be asked instead.
absl::Status WithRemedy(const absl::Status& failed) {
  if (GetReason(failed) != Reason::kStoreLocked) return failed;
  std::string text(failed.message());
  size_t server = text.rfind(kServerAt);
  std::string remedy = server == std::string::npos
                           ? std::string("wait until it has ended")
                           : fmt::format("go through it: --store tilekv://{}",
                                         text.substr(server + std::string_view(kServerAt).size()));
  return MakeError(Reason::kStoreLocked, fmt::format("{}; {}", text, remedy));
}

LocalEngineOptions WithPlainDirectory(LocalEngineOptions options) {
  while (options.directory.size() > 1 && options.directory.back() == '/') {
    options.directory.pop_back();
  }
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EngineCore>> EngineCore::Open(const LocalEngineOptions& asked) {
  std::unique_ptr<EngineCore> core(new EngineCore(WithPlainDirectory(asked)));
  const LocalEngineOptions& options = core->options_;
  FileSystem& fs = *options.file_system;
  TILEKV_RETURN_IF_ERROR(CheckStoreDirectory(fs, options.directory));
  TILEKV_ASSIGN_OR_RETURN(auto superblock, LoadSuperblock(fs, options.directory));
  if (!superblock.has_value()) {
    TILEKV_RETURN_IF_ERROR(CheckMayBecomeStore(fs, options.directory));
    if (options.max_object_bytes.has_value()) {
      TILEKV_RETURN_IF_ERROR(CheckObjectLimit(*options.max_object_bytes));
    }
    if (!options.create_if_missing) {
      return NoStoreIn(options.directory);
    }
    TILEKV_RETURN_IF_ERROR(MakeStoreDirectory(fs, options.directory));
    TILEKV_CRASH_POINT("open.directory");
  }
  auto lock = fs.Lock(options.directory + "/LOCK", LockOwner(options.server_address));
  if (!lock.ok()) return WithRemedy(lock.status());
  core->lock_ = *std::move(lock);
  TILEKV_ASSIGN_OR_RETURN(superblock, LoadSuperblock(fs, options.directory));
  if (!superblock.has_value()) {
    TILEKV_ASSIGN_OR_RETURN(
        superblock, CreateSuperblock(fs, options.directory,
                                     options.max_object_bytes.value_or(kDefaultMaxObjectBytes),
                                     options.cluster_uuid, *options.random));
    TILEKV_CRASH_POINT("open.superblock");
  }
  TILEKV_RETURN_IF_ERROR(CheckCluster(*superblock, options.directory, options.cluster_uuid));
  TILEKV_RETURN_IF_ERROR(CheckLimit(*superblock, options.max_object_bytes));
  core->superblock_ = *superblock;
  TILEKV_ASSIGN_OR_RETURN(bool create_index, MayCreateIndex(fs, options.directory));
  TILEKV_RETURN_IF_ERROR(core->OpenParts(create_index));
  return core;
}

absl::Status EngineCore::OpenParts(bool create_index) {
  FileSystem& fs = *options_.file_system;
  const std::string& directory = options_.directory;
  DiskReserve::MakeRoomToOpen(&fs, directory);
  TILEKV_RETURN_IF_ERROR(fs.CreateDirectory(directory + "/index"));
  TILEKV_RETURN_IF_ERROR(fs.CreateDirectory(directory + "/payload"));
  MakeDamageReportFolder(fs, directory);
  // Also where they were there.
  TILEKV_RETURN_IF_ERROR(fs.SyncDirectory(directory));
  TILEKV_CRASH_POINT("open.folders");
  TILEKV_ASSIGN_OR_RETURN(index_, ObjectIndex::OpenWriter(directory + "/index", create_index,
                                                          options_.rocksdb_env, health_.get()));
  TILEKV_CRASH_POINT("open.index");
  ObjectIndex::Batch opening(*index_);
  TILEKV_RETURN_IF_ERROR(CountUsage(opening));
  TILEKV_ASSIGN_OR_RETURN(auto payloads,
                          PayloadDirectory::Open(&fs, directory, index_.get(), health_.get()));
  TILEKV_RETURN_IF_ERROR(index_->WriteSynced(opening));
  TILEKV_CRASH_POINT("open.counted");
  payloads_ = std::move(payloads);
  TILEKV_ASSIGN_OR_RETURN(disk_, DiskReserve::Open(&fs, directory, health_.get()));
  TakeReports();
  return absl::OkStatus();
}

absl::Status EngineCore::CountUsage(ObjectIndex::Batch& opening) {
  TILEKV_ASSIGN_OR_RETURN(auto saved, index_->GetMeta(kUsageKey));
  if (saved.has_value()) {
    TILEKV_ASSIGN_OR_RETURN(StoreUsage usage, DecodeUsage(*saved));
    usage_.Set(usage);
    // Gone while a writer is there: after a crash the rows are counted instead.
    opening.DeleteMeta(kUsageKey);
    return absl::OkStatus();
  }
  return index_->ScanAll([&](const ObjectRow& row) {
    usage_.Replace(std::nullopt, row);
    return true;
  });
}

}  // namespace tilekv
