// What a write cost, for reports. Times of several threads are added up.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvstore/node/transfer_stats.h"

namespace tilekv {

struct WriteCost {
  int64_t source_nanos = 0;  // reading what is to be stored
  // Where the source tells (model_files.h): decoding it, and bringing its elements into order.
  int64_t inflate_nanos = 0;
  int64_t turn_nanos = 0;
  int64_t hash_nanos = 0;
  int64_t link_nanos = 0;  // asking what is there already
  int64_t put_nanos = 0;   // sending, until it is on the disk; coding and waits before retries are
                           // in `put`
  int64_t commit_nanos = 0;  // one thread's
  int64_t budget_nanos = 0;  // waiting for memory
  int64_t slowest_put_nanos = 0;
  PutStats put;

  void Add(const WriteCost& more) {
    source_nanos += more.source_nanos;
    inflate_nanos += more.inflate_nanos;
    turn_nanos += more.turn_nanos;
    hash_nanos += more.hash_nanos;
    link_nanos += more.link_nanos;
    put_nanos += more.put_nanos;
    commit_nanos += more.commit_nanos;
    budget_nanos += more.budget_nanos;
    slowest_put_nanos = std::max(slowest_put_nanos, more.slowest_put_nanos);
    put.sent_bytes += more.put.sent_bytes;
    put.retries += more.put.retries;
    put.retry_nanos += more.put.retry_nanos;
    put.encode_nanos += more.put.encode_nanos;
  }
};

}  // namespace tilekv
