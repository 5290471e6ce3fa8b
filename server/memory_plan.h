// How a node divides what --memory gives it. Classes are apart, so that work of one never waits for
// memory that another holds.
#pragma once

#include <cstdint>

namespace tilekv {

struct MemoryPlan {
  uint64_t client_stream_bytes = 0;  // chunks of puts that were received and not yet written
  uint64_t client_read_bytes = 0;    // chunks of reads that were read and not yet sent
  uint64_t short_read_bytes = 0;     // the same of short reads, as many as there may be at once
  uint64_t max_short_reads = 0;
  uint64_t max_streams = 0;             // bulk calls at once: each may keep lookahead in gRPC
  uint64_t max_waiting_puts = 0;        // beyond them; so may each of these
  uint64_t max_small_puts = 0;          // puts of small values at once
  uint64_t max_waiting_small_puts = 0;  // beyond them
  uint64_t call_bytes = 0;              // requests of other calls that are queued or run
  uint64_t pool_idle_bytes = 0;  // buffers kept for reuse; they are counted above while in use

  // Of a node of a cluster, with the other nodes.
  uint64_t replica_write_bytes = 0;  // chunks of copies that were received and not yet written
  uint64_t max_copies = 0;           // of objects that other nodes bring, at once
  uint64_t max_waiting_copies = 0;
  uint64_t max_small_copies = 0;  // at once; as many may wait
  uint64_t serve_bytes = 0;       // chunks that were read for other nodes and not yet sent
  uint64_t max_served = 0;
  uint64_t copy_ahead_bytes = 0;  // of copies on their way to other nodes, beyond a chunk of each
  uint64_t read_ahead_bytes = 0;  // read of other nodes before it is asked for
  uint64_t pull_bytes = 0;        // of copies that repair is bringing here
};

// `memory_bytes` is at least kLeastMemoryBytes. What the index and the catalog take is set aside
// first. Of a cluster's node half of the rest is for the other nodes: each upload of a client makes
// copies, which each take as much again.
MemoryPlan PlanMemory(uint64_t memory_bytes, bool cluster = false);

}  // namespace tilekv
