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
};

struct Explanation {
  struct Part {
    std::string key;   // for programs: "fetch"
    std::string what;  // follows "the time was spent"
    std::string who;   // what would have to be faster
    int64_t nanos = 0;
  };
  ExplainedRun run;
  bool is_write = false;
  uint64_t asked_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t exchanges = 0;
  uint64_t retries = 0;
  SlowestExchange slowest;
  std::vector<Part> parts;  // what took any time, most first; times of all threads added up
  std::string limit;        // a sentence; "" where nothing took time
  std::vector<std::string> advice;
};

// `destination_nanos`: one thread's, in which what was read was written elsewhere.
Explanation ExplainRead(const ExplainedRun& run, const ReadStats& stats, int64_t destination_nanos);
Explanation ExplainWrite(const ExplainedRun& run, const WriteCost& cost);

// Of the sum of all parts, 0 to 1.
double ShareOf(const Explanation& explanation, const Explanation::Part& part);
// Several lines, without the last one's end.
std::string ExplanationText(const Explanation& explanation);
Json ExplanationJson(const Explanation& explanation);

}  // namespace tilekv
