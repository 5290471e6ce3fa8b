#include "kvstore/base/simulated_rocksdb_env.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/base/status.h"
#include "rocksdb/file_system.h"

namespace tilekv {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using Creation = SimulatedDisk::Creation;

IOStatus ToRocks(const absl::Status& status) {
  if (status.ok()) return IOStatus::OK();
  std::string text = ErrorText(status);
  if (absl::IsNotFound(status)) return IOStatus::PathNotFound(text);
  return GetReason(status) == Reason::kStoreFull ? IOStatus::NoSpace(text)
                                                 : IOStatus::IOError(text);
}

class WritableFile : public rocksdb::FSWritableFile {
 public:
  WritableFile(SimulatedDisk* disk, SimulatedDisk::Handle handle, uint64_t size = 0)
      : disk_(disk), handle_(std::move(handle)), size_(size) {}
  using rocksdb::FSWritableFile::Append;
  IOStatus Append(const rocksdb::Slice& data, const IOOptions&, IODebugContext*) override {
    IOStatus status =
        ToRocks(disk_->Write(handle_, size_, AsBytes(std::string_view(data.data(), data.size()))));
    if (status.ok()) size_ += data.size();
    return status;
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    size_ = size;
    return ToRocks(disk_->Truncate(handle_, size));
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return ToRocks(disk_->Sync(handle_));
  }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return size_; }

 private:
  SimulatedDisk* const disk_;
  const SimulatedDisk::Handle handle_;
  uint64_t size_;
};

// At `offset`, as much as there is.
IOStatus ReadInto(SimulatedDisk* disk, const SimulatedDisk::Handle& handle, uint64_t offset,
                  size_t count, rocksdb::Slice* result, char* scratch) {
  auto read = disk->Read(handle, offset, {reinterpret_cast<uint8_t*>(scratch), count});
  *result = rocksdb::Slice(scratch, read.ok() ? *read : 0);
  return ToRocks(read.status());
}

class SequentialFile : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(SimulatedDisk* disk, SimulatedDisk::Handle handle)
      : disk_(disk), handle_(std::move(handle)) {}
  IOStatus Read(size_t count, const IOOptions&, rocksdb::Slice* result, char* scratch,
                IODebugContext*) override {
    IOStatus status = ReadInto(disk_, handle_, offset_, count, result, scratch);
    offset_ += result->size();
    return status;
  }
  IOStatus Skip(uint64_t count) override {
    offset_ += count;
    return IOStatus::OK();
  }

 private:
  SimulatedDisk* const disk_;
  const SimulatedDisk::Handle handle_;
  uint64_t offset_ = 0;
};

class RandomAccessFile : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(SimulatedDisk* disk, SimulatedDisk::Handle handle)
      : disk_(disk), handle_(std::move(handle)) {}
  IOStatus Read(uint64_t offset, size_t count, const IOOptions&, rocksdb::Slice* result,
                char* scratch, IODebugContext*) const override {
    return ReadInto(disk_, handle_, offset, count, result, scratch);
  }

 private:
  SimulatedDisk* const disk_;
  const SimulatedDisk::Handle handle_;
};

class Directory : public rocksdb::FSDirectory {
 public:
  Directory(SimulatedDisk* disk, std::string path) : disk_(disk), path_(std::move(path)) {}
  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    return ToRocks(disk_->SyncDirectory(path_));
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  SimulatedDisk* const disk_;
  const std::string path_;
};

struct HeldLock : public rocksdb::FileLock {
  std::string path;
  uint64_t power_cycle = 0;
};

class DiskFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit DiskFileSystem(SimulatedDisk* disk)
      : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()), disk_(disk) {}
  const char* Name() const override { return "SimulatedDisk"; }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext*) override {
    return OpenAs<SequentialFile>(path, Creation::kNever, result);
  }
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions&,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               IODebugContext*) override {
    return OpenAs<RandomAccessFile>(path, Creation::kNever, result);
  }
  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* context) override {
    IOStatus status = OpenAs<WritableFile>(path, Creation::kIfMissing, result);
    return status.ok() ? (*result)->Truncate(0, options.io_options, context) : status;
  }
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions&,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext*) override {
    auto handle = disk_->Open(path, Creation::kIfMissing);
    if (!handle.ok()) return ToRocks(handle.status());
    auto size = disk_->Size(*handle);
    if (!size.ok()) return ToRocks(size.status());
    *result = std::make_unique<WritableFile>(disk_, *std::move(handle), *size);
    return IOStatus::OK();
  }
  IOStatus ReuseWritableFile(const std::string&, const std::string&, const FileOptions&,
                             std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("recycling");
  }
  IOStatus NewRandomRWFile(const std::string&, const FileOptions&,
                           std::unique_ptr<rocksdb::FSRandomRWFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("random writes");
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions&,
                        std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext*) override {
    auto info = disk_->Stat(path);
    if (!info.ok()) return ToRocks(info.status());
    if (!info->has_value()) return IOStatus::PathNotFound(path);
    *result = std::make_unique<Directory>(disk_, path);
    return IOStatus::OK();
  }
  IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
    auto info = disk_->Stat(path);
    if (!info.ok()) return ToRocks(info.status());
    return info->has_value() ? IOStatus::OK() : IOStatus::NotFound(path);
  }
  IOStatus GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* result,
                       IODebugContext*) override {
    auto names = disk_->List(path);
    if (!names.ok()) return ToRocks(names.status());
    *result = *std::move(names);
    return IOStatus::OK();
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
    return ToRocks(disk_->Unlink(path));
  }
  IOStatus CreateDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return ToRocks(disk_->MakeDirectory(path));
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) override {
    return ToRocks(disk_->MakeDirectory(path));
  }
  IOStatus DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    return ToRocks(disk_->RemoveDirectory(path));
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions&, uint64_t* size_bytes,
                       IODebugContext*) override {
    auto info = disk_->Stat(path);
    if (!info.ok()) return ToRocks(info.status());
    if (!info->has_value()) return IOStatus::PathNotFound(path);
    *size_bytes = (*info)->size_bytes;
    return IOStatus::OK();
  }
  IOStatus GetFileModificationTime(const std::string&, const IOOptions&, uint64_t* time_s,
                                   IODebugContext*) override {
    *time_s = 0;
    return IOStatus::OK();
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                      IODebugContext*) override {
    return ToRocks(disk_->Rename(from, to));
  }
  IOStatus LinkFile(const std::string&, const std::string&, const IOOptions&,
                    IODebugContext*) override {
    return IOStatus::NotSupported("links");
  }
  IOStatus LockFile(const std::string& path, const IOOptions&, rocksdb::FileLock** lock,
                    IODebugContext*) override {
    auto opened = disk_->Open(path, Creation::kIfMissing);
    if (!opened.ok()) return ToRocks(opened.status());
    absl::Status locked = disk_->Lock(path);
    if (!locked.ok()) return ToRocks(locked);
    auto held = std::make_unique<HeldLock>();
    held->path = path;
    held->power_cycle = disk_->power_cycle();
    *lock = held.release();
    return IOStatus::OK();
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    std::unique_ptr<HeldLock> held(static_cast<HeldLock*>(lock));
    disk_->Unlock(held->path, held->power_cycle);
    return IOStatus::OK();
  }
  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* result,
                           IODebugContext*) override {
    *result = path;
    return IOStatus::OK();
  }
  IOStatus GetFreeSpace(const std::string&, const IOOptions&, uint64_t* free_bytes,
                        IODebugContext*) override {
    *free_bytes = disk_->space.available_bytes;
    return IOStatus::OK();
  }
  IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* is_directory,
                       IODebugContext*) override {
    auto info = disk_->Stat(path);
    if (!info.ok()) return ToRocks(info.status());
    *is_directory = info->has_value() && (*info)->kind == FileInfo::Kind::kDirectory;
    return IOStatus::OK();
  }

 private:
  template <typename Opened, typename Base>
  IOStatus OpenAs(const std::string& path, Creation creation, std::unique_ptr<Base>* result) {
    auto handle = disk_->Open(path, creation);
    if (!handle.ok()) return ToRocks(handle.status());
    *result = std::make_unique<Opened>(disk_, *std::move(handle));
    return IOStatus::OK();
  }

  SimulatedDisk* const disk_;
};

}  // namespace

SimulatedRocksDbEnv::SimulatedRocksDbEnv(SimulatedDisk* disk)
    : rocksdb::EnvWrapper(rocksdb::NewCompositeEnv(std::make_shared<DiskFileSystem>(disk))),
      disk_(disk) {}

void SimulatedRocksDbEnv::Schedule(void (*function)(void*), void* argument, Priority priority,
                                   void* tag, void (*on_unschedule)(void*)) {
  MutexLock lock(mutex_);
  jobs_.push_back({function, argument, priority, tag, on_unschedule});
}

int SimulatedRocksDbEnv::UnSchedule(void* tag, Priority priority) {
  std::vector<Job> removed;
  {
    MutexLock lock(mutex_);
    std::erase_if(jobs_, [&](const Job& job) {
      if (job.tag != tag || job.priority != priority) return false;
      removed.push_back(job);
      return true;
    });
  }
  for (const Job& job : removed) {
    if (job.on_unschedule != nullptr) job.on_unschedule(job.argument);
  }
  return static_cast<int>(removed.size());
}

void SimulatedRocksDbEnv::RunJobs() {
  while (!disk_->is_off()) {
    Job job;
    {
      MutexLock lock(mutex_);
      if (jobs_.empty()) return;
      job = jobs_.front();
      jobs_.pop_front();
    }
    job.function(job.argument);
  }
}

}  // namespace tilekv
