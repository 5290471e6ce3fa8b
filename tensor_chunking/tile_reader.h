// Carries out a ReadPlan: reads the ranges of tiles that it names, verified, into the destination.
//
// Whole pieces that lie in one run go straight to the destination; others through a pooled buffer
// whose bytes are reserved first. Thread-safe; everything that it is given must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kvstore/base/buffer_pool.h"
#include "kvstore/base/byte_budget.h"
#include "kvstore/kv_store.h"
#include "tensor_chunking/manifest.h"
#include "tensor_chunking/read_plan.h"

namespace tilekv {

class TileReader {
 public:
  // `verify`: to the tiles' ids. What is made of `base, xor` always is.
  TileReader(KvStore& store, BufferPool& pool, ByteBudget& budget, int threads, bool verify = true)
      : store_(store), pool_(pool), budget_(budget), threads_(threads), verify_(verify) {}

  bool verify() const { return verify_; }

  // All of the plan, on several threads, buffers from the budget. `destination` is where the
  // result's first element goes. Errors name tensor and tile. `entry` has its tiles.
  absl::Status Run(const TensorEntry& entry, const ReadPlan& plan, uint8_t* destination,
                   ReadStats* stats, const CallContext& context) const;
  // The same on the caller's thread, for one who has reserved BufferBytes beside the destination.
  absl::Status RunReserved(const TensorEntry& entry, const ReadPlan& plan, uint8_t* destination,
                           ReadStats* stats, const CallContext& context) const;
  // The most that RunReserved holds at a time for plans on this tensor.
  static uint64_t BufferBytes(const TensorEntry& entry);

  // The whole content of a tile, through `base, xor` where it is stored so.
  absl::Status ReadTile(const TileRef& ref, MutableBytes out, ReadStats* stats,
                        const CallContext& context) const;

 private:
  struct ReadHow {
    bool reserved = false;  // the memory of buffers was reserved
    bool streams = false;   // so much is read that it does not stay in the processor's cache
  };
  absl::Status ReadWork(const TensorEntry& entry, const TileWork& work, uint8_t* destination,
                        ReadHow how, ReadStats* stats, const CallContext& context) const;
  // Base and delta, combined and verified.
  absl::Status ReadXor(const TileRef& ref, MutableBytes out, ReadStats* stats,
                       const CallContext& context) const;

  KvStore& store_;
  BufferPool& pool_;
  ByteBudget& budget_;
  const int threads_;
  const bool verify_;
};

// Twice as many as the machine has processors, 4 to 16: about half of them wait for disk or network
// at any time.
int DefaultThreads(int asked);

}  // namespace tilekv
