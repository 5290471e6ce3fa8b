// The sections of the benchmark, one for each claim. Each gives {"rows": [...], ...}, which
// deploy/bench.py turns into docs/benchmarks.md.
#pragma once

#include <cstdint>
#include <string>

#include "nlohmann/json.hpp"

namespace tilekv::bench {

struct Arguments {
  std::string store;          // of a node, for what goes over TCP
  std::string folder;         // for embedded stores and raw files, on the disk that is measured
  std::string file;           // of raw bytes, `bytes` long
  uint64_t bytes = 0;         // of the big matrix
  uint64_t memory_bytes = 0;  // of readers and writers
  int rounds = 5;
  uint16_t file_port = 0;   // ServeFile of `file`
  uint16_t tile_port = 0;   // ServeTileStore
  uint16_t redis_port = 0;  // 0: left out
  uint16_t etcd_port = 0;   // 0: left out
};

nlohmann::json LoadOverTcp(const Arguments& arguments);
nlohmann::json LoadEmbedded(const Arguments& arguments);
nlohmann::json StoreDurably(const Arguments& arguments);
nlohmann::json Shards(const Arguments& arguments);
nlohmann::json Planes(const Arguments& arguments);
nlohmann::json ManyTensors(const Arguments& arguments);
nlohmann::json SmallValues(const Arguments& arguments);

}  // namespace tilekv::bench
