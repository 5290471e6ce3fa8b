#include "server/memory_plan.h"

#include <algorithm>

#include "kvstore/base/defaults.h"
#include "server/read_producer.h"

namespace tilekv {
namespace {

// Memtables and cache of the index's and the catalog's RocksDB.
constexpr uint64_t kDatabaseBytes = 32 * kMiB;
// A stalled stream keeps its lookahead, a message and what surrounds it; a put that waits for a
// place the lookahead alone. As many may wait as are served.
constexpr uint64_t kBytesPerStream = 3 * kTransferChunkBytes;
// The call and the value; and the calls of those who wait for this place.
constexpr uint64_t kBytesPerCall = 16 * kKiB;
constexpr uint64_t kWaitingForSmallPut = 4;
constexpr uint64_t kBytesPerSmallPut = kSmallValueBytes + (1 + kWaitingForSmallPut) * kBytesPerCall;

// A copy's chunk, and a stream.
constexpr uint64_t kBytesPerCopy = kTransferChunkBytes + kBytesPerStream;

void PlanPeers(uint64_t bytes, MemoryPlan& plan) {
  plan.max_copies = std::max<uint64_t>(2, bytes / 16 * 11 / kBytesPerCopy);
  plan.max_waiting_copies = plan.max_copies;
  plan.replica_write_bytes = plan.max_copies * kTransferChunkBytes;
  plan.max_small_copies = std::max<uint64_t>(8, bytes / 16 / kBytesPerSmallPut);
  plan.serve_bytes = bytes / 16;
  plan.max_served = std::max<uint64_t>(2, plan.serve_bytes / kTransferChunkBytes);
  plan.copy_ahead_bytes = bytes / 16;
  plan.read_ahead_bytes = bytes / 16;
  plan.pull_bytes = std::max(bytes / 16, kTransferChunkBytes);
}

}  // namespace

MemoryPlan PlanMemory(uint64_t memory_bytes, bool cluster) {
  uint64_t rest = memory_bytes > 2 * kDatabaseBytes ? memory_bytes - kDatabaseBytes
                                                    : memory_bytes - memory_bytes / 2;
  MemoryPlan plan;
  if (cluster) {
    rest /= 2;
    PlanPeers(rest, plan);
  }
  plan.client_stream_bytes = rest / 16 * 3;
  plan.client_read_bytes = rest / 8 * 2;
  plan.short_read_bytes = rest / 16;
  plan.max_short_reads = plan.short_read_bytes / kShortAnswerBytes;
  plan.max_streams = rest / 8 * 3 / kBytesPerStream;
  plan.max_waiting_puts = plan.max_streams;
  plan.call_bytes = rest / 16;
  plan.max_small_puts = rest / 16 / kBytesPerSmallPut;
  plan.max_waiting_small_puts = kWaitingForSmallPut * plan.max_small_puts;
  plan.pool_idle_bytes = std::min(plan.client_stream_bytes, 64 * kMiB);
  return plan;
}

}  // namespace tilekv
