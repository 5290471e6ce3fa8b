#include "kvstore/object/uncached_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

bool IsAligned(uint64_t value) { return value % kDirectIoAlignBytes == 0; }

class UncachedFile : public File {
 public:
  UncachedFile(std::unique_ptr<File> base, std::shared_ptr<BufferPool> pool)
      : base_(std::move(base)), pool_(std::move(pool)) {
    if (!base_->direct()) base_->DropCache();
  }
  ~UncachedFile() override {
    if (!base_->direct()) base_->DropCache();
  }

  absl::StatusOr<uint64_t> Read(uint64_t offset, MutableBytes out) override {
    bool aligned = IsAligned(offset) && IsAligned(out.size()) &&
                   IsAligned(reinterpret_cast<uintptr_t>(out.data()));
    if (aligned || !base_->direct()) return base_->Read(offset, out);
    uint64_t before = offset % kDirectIoAlignBytes;
    Buffer buffer = pool_->Get(RoundUp(before + out.size(), kDirectIoAlignBytes));
    TILEKV_ASSIGN_OR_RETURN(uint64_t read, base_->Read(offset - before, buffer.span()));
    uint64_t usable = std::min<uint64_t>(out.size(), read - std::min(read, before));
    if (usable > 0) std::memcpy(out.data(), buffer.data() + before, usable);
    return usable;
  }

  absl::Status Write(uint64_t, Bytes) override { return ReadOnly(); }
  absl::Status Sync() override { return ReadOnly(); }
  absl::Status Truncate(uint64_t) override { return ReadOnly(); }
  absl::StatusOr<uint64_t> Size() override { return base_->Size(); }
  bool direct() const override { return base_->direct(); }
  void DropCache() override { base_->DropCache(); }

 private:
  static absl::Status ReadOnly() {
    return MakeError(Reason::kPermissionDenied, "this file is open for reading only");
  }

  const std::unique_ptr<File> base_;
  const std::shared_ptr<BufferPool> pool_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<File>> OpenUncached(FileSystem* fs, const std::string& path,
                                                   std::shared_ptr<BufferPool> pool) {
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                          fs->Open(path, FileSystem::OpenMode::kReadDirect));
  return std::make_unique<UncachedFile>(std::move(file), std::move(pool));
}

}  // namespace tilekv
