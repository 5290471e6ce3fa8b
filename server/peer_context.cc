#include "server/peer_context.h"

#include <utility>

#include "kvstore/base/defaults.h"

namespace tilekv {
namespace {

// Threads wait for the disk most of the time.
constexpr int kShortThreads = 8;
constexpr int kLongThreads = 2;
constexpr int kRoundThreads = 2;
constexpr int kRepairThreads = 2;
constexpr int kWriteThreads = 64;
constexpr int kReadThreads = 4;

// All calls of a node come over its few connections: one of them that is slow, since its own client
// is, says nothing about the others.
StreamSlotOptions SlotsOf(uint64_t slots, uint64_t max_waiting_puts, int64_t queue_ms,
                          int64_t stalled_ms) {
  return {.slots = slots,
          .max_waiting_puts = max_waiting_puts,
          .queue_ms = queue_ms,
          .stalled_ms = stalled_ms,
          .slow_client_ms = 0};
}

}  // namespace

void TickedCalls::Add(const void* call, std::function<void()> tick) {
  MutexLock lock(mutex_);
  calls_.emplace(call, std::move(tick));
}

void TickedCalls::Remove(const void* call) {
  MutexLock lock(mutex_);
  calls_.erase(call);
}

void TickedCalls::Tick() {
  MutexLock lock(mutex_);
  for (auto& [call, tick] : calls_) tick();
}

PeerContext::PeerContext(const PeerServiceOptions& options, ServerMetrics& metrics,
                         SlowCalls& slow_calls, std::shared_ptr<BufferPool> pool,
                         const MemoryPlan& plan, int64_t transfer_queue_ms,
                         int64_t stalled_transfer_ms)
    : options(options),
      metrics(metrics),
      slow_calls(slow_calls),
      pool(std::move(pool)),
      replica_write("replica_write", plan.replica_write_bytes, metrics.WaitsOf("replica_write")),
      serve("serve", plan.serve_bytes, metrics.WaitsOf("serve")),
      copies(SlotsOf(plan.max_copies, plan.max_waiting_copies, transfer_queue_ms,
                     stalled_transfer_ms)),
      small_copies(SlotsOf(plan.max_small_copies, plan.max_small_copies, transfer_queue_ms,
                           stalled_transfer_ms)),
      served(SlotsOf(plan.max_served, 0, transfer_queue_ms, stalled_transfer_ms)),
      calls(kMaxWaitingCalls, plan.call_bytes),
      short_calls("peer_short", kShortThreads),
      long_calls("peer_long", kLongThreads),
      rounds("peer_rounds", kRoundThreads),
      repair("peer_repair", kRepairThreads),
      writes("peer_write", kWriteThreads),
      reads("peer_read", kReadThreads) {
  metrics.WatchBudget(replica_write.name(), &replica_write.budget());
  metrics.WatchBudget(serve.name(), &serve.budget());
}

void PeerContext::Tick() {
  copies.Tick();
  small_copies.Tick();
  served.Tick();
  at_work.Tick();
}

}  // namespace tilekv
