// What `tilekv perf` measures, and what it concludes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kvstore/base/call_context.h"
#include "kvstore/kv_store.h"

namespace tilekv {

struct PerfFigure {
  uint64_t bytes = 0;
  double seconds = 0;
  double rate() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

struct PerfOptions {
  uint64_t bytes = 0;   // at most so many are stored
  int64_t seconds = 0;  // for each figure
  int threads = 1;
  // A folder on the disk of a node on this machine; "": that disk is not measured. A store in a
  // directory has its own.
  std::string disk_folder;
  CallContext context;
};

struct PerfReport {
  uint64_t tile_bytes = 0;
  // What the machine does without a store. Of disk and network what there is is measured, where it
  // can be.
  PerfFigure hash;
  std::optional<PerfFigure> disk_write;
  std::optional<PerfFigure> disk_read;
  std::optional<PerfFigure> tcp;
  std::string not_measured;  // what is not, and why
  // What the store does.
  PerfFigure put;
  PerfFigure get;
  PerfFigure slice;
};

// Stores tiles of random bytes in a session that is never committed, reads them, and what the
// machine does beside. Nothing that was stored has a name; the session is over when this returns,
// and the store's next collection takes what was stored (`put.bytes`). None is run here: it would
// take whatever else is dead too.
// STORE_FULL where the disk has not room enough for it.
absl::StatusOr<PerfReport> MeasureStore(KvStore& store, const PerfOptions& options);

// Something that a figure depends on, and how fast that is by itself.
struct PerfNeed {
  std::string what;  // "the disk"
  double rate = 0;
};
struct PerfVerdict {
  double share = 0;  // of the slowest need's rate; 0: of none
  std::string limit;
  std::string passed;  // needs that the figure is faster than: memory stood in for them
};
// Names what limits a figure: the slowest of what it needs, all of it one after the other, or what
// was not measured (`rest`). What it is faster than does not limit it.
PerfVerdict JudgePerf(const PerfFigure& figure, std::vector<PerfNeed> needs,
                      const std::string& rest);

// Whether an address "HOST:PORT" is of this machine, by its loopback or one of its interfaces.
bool IsThisMachine(const std::string& address);

}  // namespace tilekv
