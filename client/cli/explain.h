// --explain: where the time of a load, an import or an export went, what limited it, and what may
// help. Pure functions of what was measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/output.h"
#include "kvstore/node/transfer_stats.h"
#include "tensor_chunking/write_cost.h"

namespace tilekv {

// What was done, as its command knows it.
struct ExplainedRun {
  std::string store_uri;
  double seconds = 0;
  uint64_t bytes = 0;  // of content
  uint64_t memory_bytes = 0;
  int threads = 0;            // that had work; 0: not known, then what they did is all there was
  uint64_t packed_bytes = 0;  // of `bytes`, in objects that small tensors share
};

struct Explanation {
  // One row: what a thread of its block did, and how long, added up over the block's threads.
  struct Part {
    std::string key;   // for programs: "fetch"
    std::string what;  // follows "the time was spent"
    std::string who;   // what would have to be faster
    int64_t nanos = 0;
  };
  // Threads that work beside each other, whose rows are all of their time: shares are of `nanos`
  // and are 1 together.
  struct Block {
    std::string key;  // for programs: "threads", "writer"
    std::string head;
    std::string whose;  // "the time"
    int64_t nanos = 0;  // of all its threads together
    // What took any time, most first; last the rest, that is in none of them.
    std::vector<Part> parts;
  };
  ExplainedRun run;
  bool is_write = false;
  uint64_t asked_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t exchanges = 0;
  uint64_t retries = 0;
  SlowestExchange slowest;
  std::vector<Block> blocks;  // those in which anything took time
  // A sentence: what limited it, or that it cannot be told and what the largest part was. "" where
  // nothing took time.
  std::string limit;
  std::vector<std::string> advice;
};

// `destination_nanos`: one thread's, in which what was read was written elsewhere.
Explanation ExplainRead(const ExplainedRun& run, const ReadStats& stats, int64_t destination_nanos);
Explanation ExplainWrite(const ExplainedRun& run, const WriteCost& cost);

// Of its block's time, 0 to 1.
double ShareOf(const Explanation::Block& block, const Explanation::Part& part);
// Several lines, without the last one's end.
std::string ExplanationText(const Explanation& explanation);
Json ExplanationJson(const Explanation& explanation);

}  // namespace tilekv
