// The machine's file system with a hand in between, for tests: calls are told to a hook, which may
// fail them; space and direct I/O are as the test says.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvstore/base/file_system.h"
#include "kvstore/base/status.h"

namespace tilekv {

class TestFileSystem : public FileSystem {
 public:
  // Before each call: "open", "read", "write", "sync", "unlink", "sync_directory". Not OK: the call
  // fails. Called from any thread; set before the store is opened.
  using Hook = std::function<absl::Status(const std::string& operation, const std::string& path)>;
  Hook hook;
  std::function<void(const std::string& path, OpenMode mode)> on_open;  // every opening of a file
  std::optional<DiskSpace> space;                                       // none: the disk's own
  bool refuse_direct = false;

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenMode mode) override {
    if (on_open != nullptr) on_open(path, mode);
    TILEKV_RETURN_IF_ERROR(Call("open", path));
    if (refuse_direct && mode == OpenMode::kCreateNewDirect) mode = OpenMode::kCreateNew;
    TILEKV_ASSIGN_OR_RETURN(auto file, base_->Open(path, mode));
    return std::make_unique<TestFile>(this, path, std::move(file));
  }
  absl::Status Unlink(const std::string& path) override {
    TILEKV_RETURN_IF_ERROR(Call("unlink", path));
    return base_->Unlink(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return base_->Rename(from, to);
  }
  absl::Status CreateDirectory(const std::string& path) override {
    return base_->CreateDirectory(path);
  }
  absl::Status RemoveDirectory(const std::string& path) override {
    return base_->RemoveDirectory(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    TILEKV_RETURN_IF_ERROR(Call("sync_directory", path));
    return base_->SyncDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return base_->List(path);
  }
  absl::StatusOr<bool> Exists(const std::string& path) override { return base_->Exists(path); }
  absl::StatusOr<FileInfo> Stat(const std::string& path) override { return base_->Stat(path); }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path,
                                                 const std::string& owner) override {
    return base_->Lock(path, owner);
  }
  absl::StatusOr<DiskSpace> Space(const std::string& path) override {
    if (space.has_value()) return *space;
    return base_->Space(path);
  }

 private:
  class TestFile : public File {
   public:
    TestFile(TestFileSystem* fs, std::string path, std::unique_ptr<File> base)
        : fs_(fs), path_(std::move(path)), base_(std::move(base)) {}
    absl::StatusOr<uint64_t> Read(uint64_t offset, MutableBytes out) override {
      TILEKV_RETURN_IF_ERROR(fs_->Call("read", path_));
      return base_->Read(offset, out);
    }
    absl::StatusOr<SharedBytes> Map(uint64_t offset, uint64_t length) override {
      return fs_->Call("read", path_).ok() ? base_->Map(offset, length) : File::Map(offset, length);
    }
    absl::Status Write(uint64_t offset, Bytes data) override {
      TILEKV_RETURN_IF_ERROR(fs_->Call("write", path_));
      return base_->Write(offset, data);
    }
    absl::Status Sync() override {
      TILEKV_RETURN_IF_ERROR(fs_->Call("sync", path_));
      return base_->Sync();
    }
    absl::Status Truncate(uint64_t size) override { return base_->Truncate(size); }
    absl::Status Allocate(uint64_t size) override { return base_->Allocate(size); }
    absl::StatusOr<uint64_t> Size() override { return base_->Size(); }
    bool direct() const override { return base_->direct(); }
    void DropCache() override { base_->DropCache(); }

   private:
    TestFileSystem* const fs_;
    const std::string path_;
    const std::unique_ptr<File> base_;
  };

  absl::Status Call(const std::string& operation, const std::string& path) {
    return hook == nullptr ? absl::OkStatus() : hook(operation, path);
  }

  FileSystem* const base_ = FileSystem::Posix();
};

}  // namespace tilekv
