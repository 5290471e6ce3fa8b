#include "kvstore/object/payload_writer.h"

#include <algorithm>
#include <cstring>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

bool IsAligned(const uint8_t* data) {
  return reinterpret_cast<uintptr_t>(data) % kDirectIoAlignBytes == 0;
}

// Shorter ones are worth collecting: a write costs more than the copy.
constexpr uint64_t kWriteInPlaceBytes = 256 * kKiB;

}  // namespace

absl::StatusOr<std::unique_ptr<PayloadWriter>> PayloadWriter::Create(
    FileSystem* fs, const std::string& path, std::shared_ptr<BufferPool> pool) {
  TILEKV_ASSIGN_OR_RETURN(auto file, fs->Open(path, FileSystem::OpenMode::kCreateNewDirect));
  return std::unique_ptr<PayloadWriter>(new PayloadWriter(std::move(file), std::move(pool)));
}

absl::Status PayloadWriter::WriteOut(Bytes aligned) {
  TILEKV_RETURN_IF_ERROR(file_->Write(offset_, aligned));
  offset_ += aligned.size();
  return absl::OkStatus();
}

absl::Status PayloadWriter::Append(Bytes stored) {
  while (!stored.empty()) {
    if (staged_ == 0 && stored.size() >= kWriteInPlaceBytes && IsAligned(stored.data())) {
      uint64_t whole = stored.size() / kDirectIoAlignBytes * kDirectIoAlignBytes;
      TILEKV_RETURN_IF_ERROR(WriteOut(stored.first(whole)));
      stored = stored.subspan(whole);
      continue;
    }
    if (!staging_) staging_ = pool_->Get(kStagingBytes);
    uint64_t take = std::min<uint64_t>(stored.size(), kStagingBytes - staged_);
    std::memcpy(staging_.data() + staged_, stored.data(), take);
    staged_ += take;
    stored = stored.subspan(take);
    if (staged_ == kStagingBytes) TILEKV_RETURN_IF_ERROR(Flush());
  }
  return absl::OkStatus();
}

absl::Status PayloadWriter::Flush() {
  if (staged_ == 0) return absl::OkStatus();
  uint64_t padded = RoundUp(staged_, kDirectIoAlignBytes);
  std::memset(staging_.data() + staged_, 0, padded - staged_);
  staged_ = 0;
  return WriteOut({staging_.data(), padded});
}

absl::Status PayloadWriter::WriteEnd(const PayloadHeader& header, std::span<const LeafHash> leaves,
                                     std::span<const uint32_t> block_table) {
  TILEKV_RETURN_IF_ERROR(
      Append({reinterpret_cast<const uint8_t*>(leaves.data()), leaves.size_bytes()}));
  TILEKV_RETURN_IF_ERROR(
      Append({reinterpret_cast<const uint8_t*>(block_table.data()), block_table.size_bytes()}));
  TILEKV_RETURN_IF_ERROR(Flush());
  if (!staging_) staging_ = pool_->Get(kPayloadHeaderBytes);
  MutableBytes space{staging_.data(), kPayloadHeaderBytes};
  EncodePayloadHeader(header, space);
  return file_->Write(0, space);
}

absl::Status PayloadWriter::Sync() {
  TILEKV_RETURN_IF_ERROR(file_->Sync());
  // Where it went through the page cache, it need not stay there.
  if (!file_->direct()) file_->DropCache();
  return absl::OkStatus();
}

}  // namespace tilekv
