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
  // Whose time a part is: all working threads', added up; that of the one thread while the others
  // have nothing to do; or one's that works beside them.
  enum class Of { kThreads, kOneAlone, kOneBeside };
  struct Part {
    std::string key;   // for programs: "fetch"
    std::string what;  // follows "the time was spent"
    std::string who;   // what would have to be faster
    int64_t nanos = 0;
    Of of = Of::kThreads;
  };
  ExplainedRun run;
  bool is_write = false;
  uint64_t asked_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t exchanges = 0;
  uint64_t retries = 0;
  SlowestExchange slowest;
  // What took any time, most first. "rest" is what is in no other of them: it is not known for
  // what.
  std::vector<Part> parts;
  std::string limit;  // a sentence; "" where nothing took time
  std::vector<std::string> advice;
};

// `destination_nanos`: one thread's, in which what was read was written elsewhere.
Explanation ExplainRead(const ExplainedRun& run, const ReadStats& stats, int64_t destination_nanos);
Explanation ExplainWrite(const ExplainedRun& run, const WriteCost& cost);

// Of the run, 0 to 1: all shares are 1 together, but for that of a thread beside the others.
double ShareOf(const Explanation& explanation, const Explanation::Part& part);
// Several lines, without the last one's end.
std::string ExplanationText(const Explanation& explanation);
Json ExplanationJson(const Explanation& explanation);

}  // namespace tilekv
