// What the service Peer of a node works with. Its places, memory and threads are apart from those
// of clients: a node that waits for another one never waits for what only it can give back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/mutex.h"
#include "server/call_gate.h"
#include "server/memory_plan.h"
#include "server/peer_service.h"
#include "server/stream_class.h"

namespace tilekv {

// Calls that are told from time to time that it is time. Thread-safe.
class TickedCalls {
 public:
  // `tick` is called in the thread of Tick, and not after Remove has returned. It must not block,
  // and neither adds nor removes.
  void Add(const void* call, std::function<void()> tick);
  void Remove(const void* call);
  void Tick();

 private:
  Mutex mutex_;
  std::map<const void*, std::function<void()>> calls_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe. Destroyed after the last call has ended; the destructor finishes work in progress.
struct PeerContext {
  // Metrics and slow calls outlive the context.
  PeerContext(const PeerServiceOptions& options, ServerMetrics& metrics, SlowCalls& slow_calls,
              std::shared_ptr<BufferPool> pool, const MemoryPlan& plan, int64_t transfer_queue_ms,
              int64_t stalled_transfer_ms);

  StreamClass Copies() { return {metrics, slow_calls, copies, replica_write, pool, writes}; }
  StreamClass Served() { return {metrics, slow_calls, served, serve, pool, reads}; }
  // From time to time.
  void Tick();

  const PeerServiceOptions options;
  ServerMetrics& metrics;
  SlowCalls& slow_calls;
  const std::shared_ptr<BufferPool> pool;
  StreamBudget replica_write;
  StreamBudget serve;
  StreamSlots copies;
  StreamSlots small_copies;  // and copies whose first message has not come yet
  StreamSlots served;
  CallGate calls;
  TickedCalls at_work;

  // Never disk on a gRPC thread.
  ThreadPool short_calls;
  ThreadPool long_calls;  // those that read whole objects
  ThreadPool rounds;      // of the collector
  ThreadPool repair;
  ThreadPool writes;
  ThreadPool reads;
};

}  // namespace tilekv
