// Bytes on their way to several nodes, held once and counted once.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/cluster/cluster_parts.h"
#include "kvstore/cluster/peer.h"

namespace tilekv {

// A pooled buffer and its share of the budget of replica writes; both go back when the last
// SharedBytes of it is gone.
struct SharedChunk {
  std::shared_ptr<ByteBudget> budget;
  Reservation reservation;
  Buffer buffer;
};

// Waits until others have left the budget, which they do as their nodes take bytes or are given up.
absl::StatusOr<std::shared_ptr<SharedChunk>> NewSharedChunk(ClusterParts& parts, uint64_t bytes);
// A copy of `bytes`, which may go when this returns.
absl::StatusOr<SharedBytes> ShareBytes(ClusterParts& parts, Bytes bytes);
inline SharedBytes WholeChunk(const std::shared_ptr<SharedChunk>& chunk) {
  return {chunk->buffer.span(), chunk};
}

}  // namespace tilekv
