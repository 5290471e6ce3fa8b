// RocksDB's environment with a hand in between, for tests: syncs of its log are counted, and fail
// when told to, after the bytes were written; which directories were synced can be asked; reads of
// tables fail, or are not taken without the page cache.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "kvstore/base/mutex.h"
#include "rocksdb/env.h"

namespace tilekv {

class TestRocksDbEnv : public rocksdb::EnvWrapper {
 public:
  TestRocksDbEnv() : rocksdb::EnvWrapper(rocksdb::Env::Default()) {}
  const char* Name() const override { return "TestRocksDbEnv"; }

  // A log's sync reports an error, with everything written in the file by then.
  std::atomic<bool> fail_log_sync{false};
  std::atomic<int> log_syncs{0};

  // As a file system does that has no direct I/O.
  std::atomic<bool> refuse_direct_reads{false};
  // Of tables, by place: none after these. Below 0: some failed.
  std::atomic<int> reads_left{std::numeric_limits<int>::max()};

  bool WasSynced(const std::string& directory) {
    MutexLock lock(mutex_);
    return synced_.count(directory) > 0;
  }

  rocksdb::Status NewWritableFile(const std::string& path,
                                  std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    rocksdb::Status status = target()->NewWritableFile(path, file, options);
    constexpr std::string_view kLog = ".log";
    bool log = path.size() > kLog.size() && path.substr(path.size() - kLog.size()) == kLog;
    if (status.ok() && log) *file = std::make_unique<LogFile>(this, std::move(*file));
    return status;
  }

  rocksdb::Status NewRandomAccessFile(const std::string& path,
                                      std::unique_ptr<rocksdb::RandomAccessFile>* file,
                                      const rocksdb::EnvOptions& options) override {
    if (options.use_direct_reads && refuse_direct_reads) {
      return rocksdb::Status::IOError("While open a file for random read: " + path,
                                      "Invalid argument");
    }
    rocksdb::Status status = target()->NewRandomAccessFile(path, file, options);
    if (status.ok()) *file = std::make_unique<ReadFile>(this, std::move(*file));
    return status;
  }

  rocksdb::Status NewDirectory(const std::string& path,
                               std::unique_ptr<rocksdb::Directory>* directory) override {
    rocksdb::Status status = target()->NewDirectory(path, directory);
    if (status.ok()) {
      *directory = std::make_unique<NotedDirectory>(this, path, std::move(*directory));
    }
    return status;
  }

 private:
  class LogFile : public rocksdb::WritableFileWrapper {
   public:
    LogFile(TestRocksDbEnv* env, std::unique_ptr<rocksdb::WritableFile> base)
        : rocksdb::WritableFileWrapper(base.get()), env_(env), base_(std::move(base)) {}
    rocksdb::Status Sync() override {
      ++env_->log_syncs;
      rocksdb::Status synced = base_->Sync();
      return env_->fail_log_sync ? rocksdb::Status::IOError("the sync failed") : synced;
    }

   private:
    TestRocksDbEnv* const env_;
    const std::unique_ptr<rocksdb::WritableFile> base_;
  };

  class ReadFile : public rocksdb::RandomAccessFileWrapper {
   public:
    ReadFile(TestRocksDbEnv* env, std::unique_ptr<rocksdb::RandomAccessFile> base)
        : rocksdb::RandomAccessFileWrapper(base.get()), env_(env), base_(std::move(base)) {}
    rocksdb::Status Read(uint64_t offset, size_t count, rocksdb::Slice* result,
                         char* scratch) const override {
      if (--env_->reads_left < 0) return rocksdb::Status::IOError("the read failed");
      return base_->Read(offset, count, result, scratch);
    }

   private:
    TestRocksDbEnv* const env_;
    const std::unique_ptr<rocksdb::RandomAccessFile> base_;
  };

  class NotedDirectory : public rocksdb::Directory {
   public:
    NotedDirectory(TestRocksDbEnv* env, std::string path, std::unique_ptr<rocksdb::Directory> base)
        : env_(env), path_(std::move(path)), base_(std::move(base)) {}
    rocksdb::Status Fsync() override {
      MutexLock lock(env_->mutex_);
      env_->synced_.insert(path_);
      return base_->Fsync();
    }

   private:
    TestRocksDbEnv* const env_;
    const std::string path_;
    const std::unique_ptr<rocksdb::Directory> base_;
  };

  Mutex mutex_;
  std::set<std::string> synced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tilekv
