// What the gRPC adapters of a node work with.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/executor.h"
#include "kvstore/base/mutex.h"
#include "kvstore/node/local_node.h"
#include "server/call_gate.h"
#include "server/memory_plan.h"
#include "server/server_metrics.h"
#include "server/slow_calls.h"
#include "server/stream_budget.h"
#include "server/stream_class.h"
#include "server/stream_slots.h"

namespace tilekv {

// Calls that stay open as long as their client likes, and are to end when the node does.
// Thread-safe.
class OpenCalls {
 public:
  // `end` is called once at most, when the node stops, also at once; not after Remove has returned.
  void Add(const void* call, std::function<void()> end);
  void Remove(const void* call);
  void EndAll();

 private:
  Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<const void*, std::function<void()>> calls_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe. Destroyed after the last call has ended; the destructor finishes work in progress.
struct ServiceContext {
  ServiceContext(LocalNode& node, ServerMetrics& metrics, const MemoryPlan& plan,
                 int64_t transfer_queue_ms, int64_t stalled_transfer_ms, int64_t slow_call_ms);

  StreamClass Puts() { return {metrics, slow_calls, slots, client_stream, pool, writes}; }
  StreamClass Reads() { return {metrics, slow_calls, slots, client_read, pool, reads}; }
  StreamClass ShortReads() { return {metrics, slow_calls, short_reads, short_read, pool, reads}; }

  LocalNode& node;
  ServerMetrics& metrics;
  const MemoryPlan plan;
  const std::shared_ptr<BufferPool> pool;
  StreamBudget client_stream;
  StreamBudget client_read;
  StreamBudget short_read;
  OpenCalls open_calls;
  StreamSlots slots;        // of bulk calls
  StreamSlots small_puts;   // of puts of small values, which need no chunk
  StreamSlots short_reads;  // of reads of little, each with its memory
  CallGate calls;           // other calls that are queued or run
  SlowCalls slow_calls;

  // Never disk on a gRPC thread. Apart, so that a long walk or a slow sync holds up nothing short.
  ThreadPool short_calls;
  ThreadPool commits;     // walk trees too, but nobody who made a model waits for an administrator
  ThreadPool long_calls;  // walks of everything
  ThreadPool writes;
  ThreadPool reads;
};

}  // namespace tilekv
