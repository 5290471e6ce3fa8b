#include "server/read_chunk.h"

#include <utility>

#include "kvstore/base/status.h"

namespace tilekv {

MutableBytes ReadChunk::Take(uint64_t bytes) {
  TILEKV_CHECK(bytes <= room_);
  if (bytes == 0) return {};
  if (!buffer_) buffer_ = pool_->Get(room_);
  MutableBytes memory = buffer_.span().subspan(filled_, bytes);
  filled_ += bytes;
  room_ -= bytes;
  return memory;
}

absl::StatusOr<Bytes> ReadChunk::Fetch(ObjectReader& reader, uint64_t stored_offset,
                                       uint64_t length) {
  if (length >= kLeastMappedBytes) {
    absl::StatusOr<SharedBytes> mapped = reader.MapStored(stored_offset, length);
    if (mapped.ok()) {
      TILEKV_CHECK(length <= room_);
      room_ -= length;
      return mapped_.emplace_back(*std::move(mapped)).bytes;
    }
    if (!absl::IsUnimplemented(mapped.status())) return mapped.status();
  }
  MutableBytes memory = Take(length);
  if (length > 0) TILEKV_RETURN_IF_ERROR(reader.ReadStored(stored_offset, memory));
  return memory;
}

}  // namespace tilekv
