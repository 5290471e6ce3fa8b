#include "kvstore/cluster/shared_chunk.h"

#include <cstring>
#include <utility>

#include "kvstore/base/status.h"

namespace tilekv {

absl::StatusOr<std::shared_ptr<SharedChunk>> NewSharedChunk(ClusterParts& parts, uint64_t bytes) {
  auto chunk = std::make_shared<SharedChunk>();
  chunk->budget = parts.options.replica_budget;
  TILEKV_ASSIGN_OR_RETURN(chunk->reservation,
                          chunk->budget->Acquire(BufferPool::CapacityFor(bytes)));
  chunk->buffer = parts.options.pool->Get(bytes);
  return chunk;
}

absl::StatusOr<SharedBytes> ShareBytes(ClusterParts& parts, Bytes bytes) {
  TILEKV_ASSIGN_OR_RETURN(std::shared_ptr<SharedChunk> chunk, NewSharedChunk(parts, bytes.size()));
  if (!bytes.empty()) std::memcpy(chunk->buffer.data(), bytes.data(), bytes.size());
  return SharedBytes{chunk->buffer.span(), std::move(chunk)};
}

}  // namespace tilekv
