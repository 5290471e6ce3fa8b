#include "kvstore/base/simulated_disk.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr uint64_t kTornBytes = 4096;

// A write of `data`, or, without it, a new size.
struct ByteChange {
  uint64_t offset = 0;  // or the new size
  std::optional<std::string> data;

  uint64_t end() const { return data.has_value() ? offset + data->size() : offset; }
  void ApplyTo(std::string& content) const {
    if (!data.has_value()) {
      content.resize(offset, '\0');
      return;
    }
    if (content.size() < end()) content.resize(end(), '\0');
    content.replace(offset, data->size(), *data);
  }
  // Without the bytes that it adds at `limit` and beyond. Those that were there stay: a new size
  // writes none.
  void ApplyBefore(uint64_t limit, std::string& content) const {
    if (!data.has_value()) {
      content.resize(std::min<uint64_t>(offset, std::max<uint64_t>(limit, content.size())), '\0');
      return;
    }
    uint64_t keep = offset >= limit ? 0 : std::min<uint64_t>(data->size(), limit - offset);
    ByteChange{std::min(offset, limit), data->substr(0, keep)}.ApplyTo(content);
  }
};

absl::Status Missing(const std::string& path) {
  return MakeError(Reason::kNotFound, fmt::format("'{}': no such file or directory", path));
}

}  // namespace

struct SimulatedDisk::Node {
  using Entries = std::map<std::string, std::shared_ptr<Node>>;
  struct EntryChange {
    std::vector<std::pair<std::string, std::shared_ptr<Node>>> entries;  // null: removed
    // Of a rename into another directory, shared with its half there: whether it is durable, once
    // that is decided.
    std::shared_ptr<std::optional<bool>> whole;
  };

  bool is_directory = false;
  uint64_t number = 0;
  std::string content, durable_content;
  std::vector<ByteChange> unsynced;
  Entries entries, durable_entries;
  std::vector<EntryChange> unsynced_entries;  // each happens as a whole

  static void Apply(const EntryChange& change, Entries& to) {
    for (const auto& [name, node] : change.entries) {
      if (node == nullptr) {
        to.erase(name);
      } else {
        to[name] = node;
      }
    }
  }
  void Change(EntryChange change) {
    Apply(change, entries);
    unsynced_entries.push_back(std::move(change));
  }
  void Change(ByteChange change) {
    change.ApplyTo(content);
    unsynced.push_back(std::move(change));
  }
  void MakeDurable() {
    for (const ByteChange& change : unsynced) change.ApplyTo(durable_content);
    unsynced.clear();
    MakeEntriesDurable(unsynced_entries.size());
  }
  // The first so many changes, and of the others what is decided by another directory.
  void MakeEntriesDurable(size_t count) {
    for (size_t i = 0; i < unsynced_entries.size(); ++i) {
      const EntryChange& change = unsynced_entries[i];
      bool durable = i < count;
      if (change.whole != nullptr) {
        if (!change.whole->has_value()) *change.whole = durable;
        durable = **change.whole;
      }
      if (durable) Apply(change, durable_entries);
    }
    unsynced_entries.clear();
  }
};

struct SimulatedDisk::Place {
  std::shared_ptr<Node> directory;
  std::string name;
  std::shared_ptr<Node> node;  // null: absent
};

class SimulatedDisk::DiskFile : public File {
 public:
  DiskFile(SimulatedDisk* disk, Handle handle, bool direct)
      : disk_(disk), handle_(std::move(handle)), direct_(direct) {}
  absl::StatusOr<uint64_t> Read(uint64_t offset, MutableBytes out) override {
    return disk_->Read(handle_, offset, out);
  }
  absl::Status Write(uint64_t offset, Bytes data) override {
    bool aligned = offset % kDirectIoAlignBytes == 0 && data.size() % kDirectIoAlignBytes == 0 &&
                   reinterpret_cast<uintptr_t>(data.data()) % kDirectIoAlignBytes == 0;
    if (direct_ && !aligned) {
      return MakeError(Reason::kInternal, fmt::format("write '{}': not aligned", handle_.path));
    }
    return disk_->Write(handle_, offset, data);
  }
  absl::Status Sync() override { return disk_->Sync(handle_); }
  absl::Status Truncate(uint64_t size) override { return disk_->Truncate(handle_, size); }
  absl::StatusOr<uint64_t> Size() override { return disk_->Size(handle_); }
  bool direct() const override { return direct_; }
  void DropCache() override {}

 private:
  SimulatedDisk* const disk_;
  const Handle handle_;
  const bool direct_;
};

class SimulatedDisk::DiskLock : public FileLock {
 public:
  DiskLock(SimulatedDisk* disk, std::string path)
      : disk_(disk), path_(std::move(path)), power_cycle_(disk->power_cycle()) {}
  ~DiskLock() override { disk_->Unlock(path_, power_cycle_); }

 private:
  SimulatedDisk* const disk_;
  const std::string path_;
  const uint64_t power_cycle_;
};

class SimulatedDisk::DiskFileSystem : public FileSystem {
 public:
  explicit DiskFileSystem(SimulatedDisk* disk) : disk_(disk) {}
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    bool is_new = mode == OpenMode::kCreateNew || mode == OpenMode::kCreateNewDirect;
    Creation creation = is_new                         ? Creation::kMustBeNew
                        : mode == OpenMode::kReadWrite ? Creation::kIfMissing
                                                       : Creation::kNever;
    TILEKV_ASSIGN_OR_RETURN(Handle handle, disk_->Open(path, creation));
    bool direct = mode == OpenMode::kCreateNewDirect || mode == OpenMode::kReadDirect;
    return std::make_unique<DiskFile>(disk_, std::move(handle), direct);
  }
  absl::Status Unlink(const std::string& path) override { return disk_->Unlink(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return disk_->Rename(from, to);
  }
  absl::Status CreateDirectory(const std::string& path) override {
    return disk_->MakeDirectory(path);
  }
  absl::Status RemoveDirectory(const std::string& path) override {
    return disk_->RemoveDirectory(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return disk_->SyncDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return disk_->List(path);
  }
  absl::StatusOr<bool> Exists(const std::string& path) override {
    TILEKV_ASSIGN_OR_RETURN(std::optional<FileInfo> info, disk_->Stat(path));
    return info.has_value();
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    TILEKV_ASSIGN_OR_RETURN(std::optional<FileInfo> info, disk_->Stat(path));
    if (!info.has_value()) return Missing(path);
    return *info;
  }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                 const std::string& owner) override {
    TILEKV_ASSIGN_OR_RETURN(Handle handle, disk_->Open(path, Creation::kIfMissing));
    TILEKV_RETURN_IF_ERROR(disk_->Lock(path));
    auto lock = std::make_unique<DiskLock>(disk_, path);
    TILEKV_RETURN_IF_ERROR(disk_->Truncate(handle, 0));
    TILEKV_RETURN_IF_ERROR(disk_->Write(handle, 0, AsBytes(owner)));
    return lock;
  }
  absl::StatusOr<DiskSpace> Space(const std::string& /*path*/) override { return disk_->space; }

 private:
  SimulatedDisk* const disk_;
};

SimulatedDisk::SimulatedDisk(uint64_t seed)
    : random_(seed), fs_(std::make_unique<DiskFileSystem>(this)), root_(std::make_shared<Node>()) {
  root_->is_directory = true;
}
SimulatedDisk::~SimulatedDisk() = default;

// --- power ---

void SimulatedDisk::PowerOff() {
  MutexLock lock(mutex_);
  off_ = true;
}

void SimulatedDisk::PowerOffAtChange(uint64_t n) {
  MutexLock lock(mutex_);
  off_at_change_ = n == 0 ? 0 : changes_ + n;
}

bool SimulatedDisk::is_off() {
  MutexLock lock(mutex_);
  return off_;
}

uint64_t SimulatedDisk::changes() {
  MutexLock lock(mutex_);
  return changes_;
}

uint64_t SimulatedDisk::power_cycle() {
  MutexLock lock(mutex_);
  return power_cycle_;
}

void SimulatedDisk::PowerOn(Loss loss) {
  MutexLock lock(mutex_);
  std::set<const Node*> seen;
  if (loss != Loss::kNothing) Lose(*root_, loss, seen);
  locked_.clear();
  off_ = false;
  off_at_change_ = 0;
  ++power_cycle_;
}

void SimulatedDisk::Lose(Node& node, Loss loss, std::set<const Node*>& seen) {
  if (!seen.insert(&node).second) return;
  if (!node.is_directory) {
    LoseBytes(node, loss);
    return;
  }
  size_t kept = loss == Loss::kEverything ? 0
                : loss == Loss::kTornEnd  ? node.unsynced_entries.size()
                                          : random_.Below(node.unsynced_entries.size() + 1);
  node.MakeEntriesDurable(kept);
  node.entries = node.durable_entries;
  for (const auto& [name, child] : node.entries) Lose(*child, loss, seen);
}

void SimulatedDisk::LoseBytes(Node& file, Loss loss) {
  std::vector<ByteChange>& unsynced = file.unsynced;
  if (loss == Loss::kPrefix && !unsynced.empty()) {
    size_t kept = random_.Below(unsynced.size() + 1);
    for (size_t i = 0; i < kept; ++i) unsynced[i].ApplyTo(file.durable_content);
    if (kept < unsynced.size() && unsynced[kept].data.has_value()) {
      const ByteChange& last = unsynced[kept];
      last.ApplyBefore(last.offset + random_.Below(last.data->size() + 1), file.durable_content);
    }
  } else if (loss == Loss::kTornEnd && !unsynced.empty()) {
    uint64_t end = 0;
    for (const ByteChange& change : unsynced) end = std::max(end, change.end());
    uint64_t cut = end - std::min(end, random_.Below(kTornBytes + 1));
    for (const ByteChange& change : unsynced) change.ApplyBefore(cut, file.durable_content);
    // The size may be there without its bytes.
    bool with_size = random_.Below(2) == 0;
    if (with_size && file.durable_content.size() < end) file.durable_content.resize(end, '\0');
  }
  unsynced.clear();
  file.content = file.durable_content;
}

void SimulatedDisk::FlipBit(const std::string& path, uint64_t offset) {
  MutexLock lock(mutex_);
  std::shared_ptr<Node> file = Find(path);
  TILEKV_CHECK(file != nullptr && offset < file->content.size());
  for (std::string* content : {&file->content, &file->durable_content}) {
    if (offset < content->size()) (*content)[offset] ^= 1;
  }
}

// --- calls ---

absl::Status SimulatedDisk::Begin(const char* call, const std::string& path, bool is_change) {
  if (!off_ && is_change && ++changes_ == off_at_change_) off_ = true;
  if (off_) {
    return MakeError(Reason::kInternal, fmt::format("{} '{}': the power is off", call, path));
  }
  return hook == nullptr ? absl::OkStatus() : hook(call, path);
}

absl::Status SimulatedDisk::CheckAlive(const Handle& handle) {
  if (handle.power_cycle == power_cycle_) return absl::OkStatus();
  return MakeError(Reason::kInternal,
                   fmt::format("'{}' was open when the power went off", handle.path));
}

namespace {

std::vector<std::string> PartsOf(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    size_t slash = std::min(path.find('/', at), path.size());
    if (slash > at) parts.push_back(path.substr(at, slash - at));
    at = slash + 1;
  }
  return parts;
}

}  // namespace

std::shared_ptr<SimulatedDisk::Node> SimulatedDisk::Find(const std::string& path) {
  std::shared_ptr<Node> node = root_;
  for (const std::string& part : PartsOf(path)) {
    auto found = node->entries.find(part);
    if (found == node->entries.end()) return nullptr;
    node = found->second;
  }
  return node;
}

absl::StatusOr<SimulatedDisk::Place> SimulatedDisk::PlaceOf(const std::string& path) {
  std::vector<std::string> parts = PartsOf(path);
  if (parts.empty()) return MakeError(Reason::kInternal, "'/' is not an entry");
  std::string name = parts.back();
  size_t slash = path.rfind(name);
  std::shared_ptr<Node> directory = Find(path.substr(0, slash));
  if (directory == nullptr || !directory->is_directory) return Missing(path);
  auto found = directory->entries.find(name);
  std::shared_ptr<Node> node = found == directory->entries.end() ? nullptr : found->second;
  return Place{std::move(directory), std::move(name), std::move(node)};
}

absl::StatusOr<SimulatedDisk::Handle> SimulatedDisk::Open(const std::string& path,
                                                          Creation creation) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(Begin("open", path, false));
  TILEKV_ASSIGN_OR_RETURN(Place place, PlaceOf(path));
  if (place.node != nullptr && creation == Creation::kMustBeNew) {
    return absl::AlreadyExistsError(fmt::format("open '{}': file exists", path));
  }
  if (place.node == nullptr) {
    if (creation == Creation::kNever) return Missing(path);
    TILEKV_RETURN_IF_ERROR(Begin("create", path, true));
    place.node = std::make_shared<Node>();
    place.node->number = next_number_++;
    place.directory->Change(Node::EntryChange{{{place.name, place.node}}, nullptr});
  }
  return Handle{place.node, path, power_cycle_};
}

absl::StatusOr<uint64_t> SimulatedDisk::Read(const Handle& handle, uint64_t offset,
                                             MutableBytes out) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(CheckAlive(handle));
  TILEKV_RETURN_IF_ERROR(Begin("read", handle.path, false));
  const std::string& content = handle.node->content;
  if (offset >= content.size()) return 0;
  uint64_t count = std::min<uint64_t>(out.size(), content.size() - offset);
  if (count > 0) std::memcpy(out.data(), content.data() + offset, count);
  return count;
}

absl::Status SimulatedDisk::Write(const Handle& handle, uint64_t offset, Bytes data) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(CheckAlive(handle));
  TILEKV_RETURN_IF_ERROR(Begin("write", handle.path, true));
  handle.node->Change(ByteChange{offset, std::string(AsText(data))});
  return absl::OkStatus();
}

absl::Status SimulatedDisk::Truncate(const Handle& handle, uint64_t size) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(CheckAlive(handle));
  TILEKV_RETURN_IF_ERROR(Begin("truncate", handle.path, true));
  handle.node->Change(ByteChange{size, std::nullopt});
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SimulatedDisk::Size(const Handle& handle) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(CheckAlive(handle));
  return handle.node->content.size();
}

absl::Status SimulatedDisk::Sync(const Handle& handle) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(CheckAlive(handle));
  TILEKV_RETURN_IF_ERROR(Begin("sync", handle.path, true));
  if (leave_out != nullptr && leave_out("sync", handle.path)) return absl::OkStatus();
  handle.node->MakeDurable();
  return absl::OkStatus();
}

absl::Status SimulatedDisk::Unlink(const std::string& path) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(Begin("unlink", path, true));
  TILEKV_ASSIGN_OR_RETURN(Place place, PlaceOf(path));
  if (place.node == nullptr) return Missing(path);
  place.directory->Change(Node::EntryChange{{{place.name, nullptr}}, nullptr});
  return absl::OkStatus();
}

absl::Status SimulatedDisk::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(Begin("rename", from, true));
  TILEKV_ASSIGN_OR_RETURN(Place source, PlaceOf(from));
  TILEKV_ASSIGN_OR_RETURN(Place target, PlaceOf(to));
  if (source.node == nullptr) return Missing(from);
  if (source.directory == target.directory) {
    source.directory->Change(
        Node::EntryChange{{{source.name, nullptr}, {target.name, source.node}}, nullptr});
    return absl::OkStatus();
  }
  auto whole = std::make_shared<std::optional<bool>>();
  source.directory->Change(Node::EntryChange{{{source.name, nullptr}}, whole});
  target.directory->Change(Node::EntryChange{{{target.name, source.node}}, whole});
  return absl::OkStatus();
}

absl::Status SimulatedDisk::MakeDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  if (std::shared_ptr<Node> there = Find(path); there != nullptr && there->is_directory) {
    return absl::OkStatus();
  }
  TILEKV_RETURN_IF_ERROR(Begin("make_directory", path, true));
  TILEKV_ASSIGN_OR_RETURN(Place place, PlaceOf(path));
  if (place.node != nullptr) return absl::AlreadyExistsError(path);
  auto made = std::make_shared<Node>();
  made->is_directory = true;
  made->number = next_number_++;
  place.directory->Change(Node::EntryChange{{{place.name, std::move(made)}}, nullptr});
  return absl::OkStatus();
}

absl::Status SimulatedDisk::RemoveDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(Begin("remove_directory", path, true));
  TILEKV_ASSIGN_OR_RETURN(Place place, PlaceOf(path));
  if (place.node == nullptr) return Missing(path);
  if (!place.node->entries.empty()) {
    return MakeError(Reason::kInternal, fmt::format("'{}' is not empty", path));
  }
  place.directory->Change(Node::EntryChange{{{place.name, nullptr}}, nullptr});
  return absl::OkStatus();
}

absl::Status SimulatedDisk::SyncDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(Begin("sync_directory", path, true));
  std::shared_ptr<Node> directory = Find(path);
  if (directory == nullptr) return Missing(path);
  if (leave_out != nullptr && leave_out("sync_directory", path)) return absl::OkStatus();
  directory->MakeDurable();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SimulatedDisk::List(const std::string& path) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(Begin("read", path, false));
  std::shared_ptr<Node> directory = Find(path);
  if (directory == nullptr || !directory->is_directory) return Missing(path);
  std::vector<std::string> names;
  for (const auto& [name, node] : directory->entries) names.push_back(name);
  return names;
}

absl::StatusOr<std::optional<FileInfo>> SimulatedDisk::Stat(const std::string& path) {
  MutexLock lock(mutex_);
  TILEKV_RETURN_IF_ERROR(Begin("read", path, false));
  std::shared_ptr<Node> node = Find(path);
  if (node == nullptr) return std::nullopt;
  return FileInfo{
      .kind = node->is_directory ? FileInfo::Kind::kDirectory : FileInfo::Kind::kFile,
      .inode = node->number,
      .size_bytes = node->content.size(),
  };
}

absl::Status SimulatedDisk::Lock(const std::string& path) {
  MutexLock lock(mutex_);
  if (locked_.insert(path).second) return absl::OkStatus();
  return MakeError(Reason::kStoreLocked, fmt::format("'{}' is held by another writer", path));
}

void SimulatedDisk::Unlock(const std::string& path, uint64_t power_cycle) {
  MutexLock lock(mutex_);
  if (power_cycle == power_cycle_) locked_.erase(path);
}

}  // namespace tilekv
