// What the streams of one class have together: places, memory and threads of their own, so that
// none waits for what a stream of another class holds; and where they are counted.
#pragma once

#include <memory>

#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/executor.h"
#include "server/server_metrics.h"
#include "server/slow_calls.h"
#include "server/stream_budget.h"
#include "server/stream_slots.h"

namespace tilekv {

// All outlive the streams.
struct StreamClass {
  ServerMetrics& metrics;
  SlowCalls& slow_calls;
  StreamSlots& slots;
  StreamBudget& budget;
  std::shared_ptr<BufferPool> pool;
  Executor& executor;
};

}  // namespace tilekv
