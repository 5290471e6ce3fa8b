// Writes one payload file: streams the stored bytes, then tables and header. Memory: one staging
// buffer of at most kStagingBytes. For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/file_system.h"
#include "kvstore/object/payload_file.h"

namespace tilekv {

class PayloadWriter {
 public:
  static constexpr uint64_t kStagingBytes = kMiB;

  // Creates the file, which must not exist (absl::IsAlreadyExists), past the page cache where the
  // file system lets it.
  static absl::StatusOr<std::unique_ptr<PayloadWriter>> Create(FileSystem* fs,
                                                               const std::string& path,
                                                               std::shared_ptr<BufferPool> pool);
  // The next stored bytes. A long span that is aligned to kDirectIoAlignBytes is written from where
  // it lies; everything else is copied into the staging buffer.
  absl::Status Append(Bytes stored);
  // Tables and header, after the last stored byte.
  absl::Status WriteEnd(const PayloadHeader& header, std::span<const LeafHash> leaves,
                        std::span<const uint32_t> block_table);
  // Everything is durable but the directory entry. A failure is final for the store.
  absl::Status Sync();

  // False where the file system refused direct I/O.
  bool direct() const { return file_->direct(); }
  // Bytes on their way to the disk or there: for the claim on space.
  uint64_t written_bytes() const { return offset_ - kPayloadHeaderBytes; }

 private:
  PayloadWriter(std::unique_ptr<File> file, std::shared_ptr<BufferPool> pool)
      : file_(std::move(file)), pool_(std::move(pool)) {}
  absl::Status WriteOut(Bytes aligned);
  absl::Status Flush();

  const std::unique_ptr<File> file_;
  const std::shared_ptr<BufferPool> pool_;
  Buffer staging_;
  uint64_t staged_ = 0;                    // bytes in it
  uint64_t offset_ = kPayloadHeaderBytes;  // where they go; aligned
};

}  // namespace tilekv
