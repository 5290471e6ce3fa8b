#include "server/service_context.h"

#include <utility>

namespace tilekv {
namespace {

// Threads wait for the disk most of the time; group commits want many callers at once.
constexpr int kShortThreads = 16;
constexpr int kReadThreads = 4;
// Of a node of a cluster, where they wait for other nodes too.
constexpr int kClusterShortThreads = 64;
constexpr int kClusterReadThreads = 32;
constexpr int kCommitThreads = 4;
constexpr int kLongThreads = 4;
constexpr int kWriteThreads = 64;

}  // namespace

void OpenCalls::Add(const void* call, std::function<void()> end) {
  MutexLock lock(mutex_);
  if (ending_) return end();
  calls_.emplace(call, std::move(end));
}

void OpenCalls::Remove(const void* call) {
  MutexLock lock(mutex_);
  calls_.erase(call);
}

void OpenCalls::EndAll() {
  MutexLock lock(mutex_);
  ending_ = true;
  for (auto& [call, end] : calls_) end();
  calls_.clear();
}

ServiceContext::ServiceContext(LocalNode& node, ServerMetrics& metrics, const MemoryPlan& plan,
                               int64_t transfer_queue_ms, int64_t stalled_transfer_ms,
                               int64_t slow_call_ms)
    : node(node),
      metrics(metrics),
      plan(plan),
      pool(BufferPool::Create(plan.pool_idle_bytes)),
      client_stream("client_stream", plan.client_stream_bytes, metrics.WaitsOf("client_stream")),
      client_read("client_read", plan.client_read_bytes, metrics.WaitsOf("client_read")),
      short_read("short_read", plan.short_read_bytes, metrics.WaitsOf("short_read")),
      slots({.slots = plan.max_streams,
             .max_waiting_puts = plan.max_waiting_puts,
             .queue_ms = transfer_queue_ms,
             .stalled_ms = stalled_transfer_ms}),
      small_puts({.slots = plan.max_small_puts,
                  .max_waiting_puts = plan.max_waiting_small_puts,
                  .queue_ms = transfer_queue_ms,
                  .stalled_ms = stalled_transfer_ms}),
      short_reads({.slots = plan.max_short_reads,
                   .queue_ms = transfer_queue_ms,
                   .stalled_ms = stalled_transfer_ms}),
      calls(kMaxWaitingCalls, plan.call_bytes),
      slow_calls(slow_call_ms, LogSlowCall),
      short_calls("short", plan.max_copies > 0 ? kClusterShortThreads : kShortThreads),
      commits("commit", kCommitThreads),
      long_calls("long", kLongThreads),
      writes("write", kWriteThreads),
      reads("read", plan.max_copies > 0 ? kClusterReadThreads : kReadThreads) {
  metrics.WatchBudget(client_stream.name(), &client_stream.budget());
  metrics.WatchBudget(client_read.name(), &client_read.budget());
  metrics.WatchBudget(short_read.name(), &short_read.budget());
}

}  // namespace tilekv
